#include "src/cuda/clock.hpp"

#include "src/cuda/check.hpp"
#include "src/portable/event_clock.hpp"

namespace rapt::cuda {
namespace {

struct Api {
  using UseDevice = cuda::UseDevice;
  using Stream = cudaStream_t;
  using Event = cudaEvent_t;
  using Graph = cudaGraph_t;
  using Replayable = cudaGraphExec_t;

  static constexpr auto require = cuda::require;
  static constexpr auto forget_error = cudaGetLastError;

  static cudaError_t allocate(void** memory, std::size_t bytes) {
    return cudaMalloc(memory, bytes);
  }
  static constexpr auto fill = cudaMemsetAsync;
  static constexpr auto release = cudaFree;

  static constexpr auto create_stream = cudaStreamCreate;
  static constexpr auto destroy_stream = cudaStreamDestroy;

  static constexpr auto create_event = cudaEventCreate;
  static constexpr auto record = cudaEventRecord;
  static constexpr auto wait_for = cudaEventSynchronize;
  static constexpr auto milliseconds_between = cudaEventElapsedTime;
  static constexpr auto destroy_event = cudaEventDestroy;

  static constexpr auto this_thread = cudaStreamCaptureModeThreadLocal;
  static constexpr auto begin_capture = cudaStreamBeginCapture;
  static constexpr auto end_capture = cudaStreamEndCapture;
  static cudaError_t instantiate(Replayable* replayable, Graph graph) {
    return cudaGraphInstantiateWithFlags(replayable, graph, 0);
  }
  static constexpr auto launch = cudaGraphLaunch;
  static constexpr auto destroy_graph = cudaGraphDestroy;
  static constexpr auto destroy_replayable = cudaGraphExecDestroy;
};

}  // namespace

std::unique_ptr<StreamClock> clock_of(const Device& device) {
  return std::make_unique<gpu::EventClock<Api>>(device);
}

}  // namespace rapt::cuda
