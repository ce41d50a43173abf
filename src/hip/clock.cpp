#include "src/hip/clock.hpp"

#include "src/hip/check.hpp"
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
  static constexpr auto forget_error = hipGetLastError;

  static hipError_t allocate(void** memory, std::size_t bytes) { return hipMalloc(memory, bytes); }
  static constexpr auto fill = hipMemsetAsync;
  static constexpr auto release = hipFree;

  static constexpr auto create_stream = hipStreamCreate;
  static constexpr auto destroy_stream = hipStreamDestroy;

  static constexpr auto create_event = hipEventCreate;
  static constexpr auto record = hipEventRecord;
  static constexpr auto wait_for = hipEventSynchronize;
  static constexpr auto milliseconds_between = hipEventElapsedTime;
  static constexpr auto destroy_event = hipEventDestroy;

  static constexpr auto this_thread = hipStreamCaptureModeThreadLocal;
  static constexpr auto begin_capture = hipStreamBeginCapture;
  static constexpr auto end_capture = hipStreamEndCapture;
  static hipError_t instantiate(Replayable* replayable, Graph graph) {
    return hipGraphInstantiate(replayable, graph, nullptr, nullptr, 0);
  }
  static constexpr auto launch = hipGraphLaunch;
  static constexpr auto destroy_graph = hipGraphDestroy;
  static constexpr auto destroy_replayable = hipGraphExecDestroy;
};

}  // namespace

std::unique_ptr<StreamClock> clock_of(const Device& device) {
  return std::make_unique<gpu::EventClock<Api>>(device);
}

}  // namespace rapt::hip
