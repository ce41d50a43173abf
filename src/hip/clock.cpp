#include "src/hip/clock.hpp"

#include "src/hip/check.hpp"
#include "src/hip/runtime.hpp"
#include "src/portable/event_clock.hpp"

namespace rapt::hip {
namespace {

struct Api {
  using UseDevice = hip::UseDevice;
  using Stream = hipStream_t;
  using Event = hipEvent_t;
  using Graph = hipGraph_t;
  using Replayable = hipGraphExec_t;

  static constexpr auto require = hip::require;
  template <auto function>
  static constexpr auto call =
      [](auto... arguments) { return (runtime().*function)(arguments...); };

  static constexpr auto forget_error = call<&Runtime::last_error>;

  static constexpr auto allocate = call<&Runtime::allocate>;
  static constexpr auto fill = call<&Runtime::fill>;
  static constexpr auto release = call<&Runtime::release>;

  static constexpr auto create_stream = call<&Runtime::create_stream>;
  static constexpr auto destroy_stream = call<&Runtime::destroy_stream>;

  static constexpr auto create_event = call<&Runtime::create_event>;
  static constexpr auto record = call<&Runtime::record>;
  static constexpr auto wait_for = call<&Runtime::wait_for_event>;
  static constexpr auto milliseconds_between = call<&Runtime::milliseconds_between>;
  static constexpr auto destroy_event = call<&Runtime::destroy_event>;

  static constexpr auto this_thread = hipStreamCaptureModeThreadLocal;
  static constexpr auto begin_capture = call<&Runtime::begin_capture>;
  static constexpr auto end_capture = call<&Runtime::end_capture>;
  static hipError_t instantiate(Replayable* replayable, Graph graph) {
    return runtime().instantiate(replayable, graph, nullptr, nullptr, 0);
  }
  static constexpr auto launch = call<&Runtime::launch_graph>;
  static constexpr auto destroy_graph = call<&Runtime::destroy_graph>;
  static constexpr auto destroy_replayable = call<&Runtime::destroy_replayable>;
};

}  // namespace

std::unique_ptr<StreamClock> clock_of(const Device& device) {
  return std::make_unique<gpu::EventClock<Api>>(device);
}

}  // namespace rapt::hip
