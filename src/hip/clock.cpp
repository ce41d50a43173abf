#include "src/hip/clock.hpp"

#include <algorithm>

#include "src/hip/check.hpp"

namespace rapt::hip {
namespace {

constexpr double least_scratch = 256 << 20;  // bytes
constexpr double caches_of_scratch = 2.5;    // times the cache

class Clock final : public StreamClock {
 public:
  explicit Clock(const Device& device)
      : device_(device.index),
        scratch_bytes_(static_cast<std::size_t>(
            std::max(least_scratch, caches_of_scratch * device.nominal.cache_bytes))) {
    try {
      const UseDevice current(device_);
      // A stream that waits for the default one, where copies to the device may still be under way.
      require(hipStreamCreate(&stream_), "create a stream");
      require(hipEventCreate(&begin_), "create an event");
      require(hipEventCreate(&end_), "create an event");
      require(hipMalloc(&scratch_, scratch_bytes_), "allocate memory to clear the cache with");
    } catch (...) {
      destroy();
      throw;
    }
  }
  ~Clock() override { destroy(); }
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;

  void* stream() const override { return stream_; }

  void clear_cache() override {
    const UseDevice current(device_);
    require(hipMemsetAsync(scratch_, 0, scratch_bytes_, stream_), "clear the cache");
  }

  void start() override {
    const UseDevice current(device_);
    require(hipEventRecord(begin_, stream_), "record an event");
  }

  double stop() override {
    const UseDevice current(device_);
    require(hipEventRecord(end_, stream_), "record an event");
    require(hipEventSynchronize(end_), "finish the timed work");
    float milliseconds = 0;
    require(hipEventElapsedTime(&milliseconds, begin_, end_), "read the time between events");
    return 1e-3 * milliseconds;
  }

  void capture(const std::function<void()>& work) override {
    const UseDevice current(device_);
    release_graph();
    require(hipStreamBeginCapture(stream_, hipStreamCaptureModeThreadLocal),
            "begin to capture a graph");
    hipGraph_t graph = nullptr;
    try {
      work();
    } catch (...) {
      static_cast<void>(hipStreamEndCapture(stream_, &graph));
      if (graph) static_cast<void>(hipGraphDestroy(graph));
      static_cast<void>(hipGetLastError());
      throw;
    }
    require(hipStreamEndCapture(stream_, &graph), "capture a graph");
    const hipError_t status = hipGraphInstantiate(&replayable_, graph, nullptr, nullptr, 0);
    static_cast<void>(hipGraphDestroy(graph));
    require(status, "instantiate a graph");
  }

  void replay() override {
    const UseDevice current(device_);
    require(hipGraphLaunch(replayable_, stream_), "launch a graph");
  }

 private:
  void release_graph() noexcept {
    if (replayable_) static_cast<void>(hipGraphExecDestroy(replayable_));
    replayable_ = nullptr;
  }

  void destroy() noexcept {
    release_graph();
    if (scratch_) static_cast<void>(hipFree(scratch_));
    for (const hipEvent_t event : {begin_, end_}) {
      if (event) static_cast<void>(hipEventDestroy(event));
    }
    if (stream_) static_cast<void>(hipStreamDestroy(stream_));
  }

  int device_;
  std::size_t scratch_bytes_;
  void* scratch_ = nullptr;
  hipStream_t stream_ = nullptr;
  hipEvent_t begin_ = nullptr, end_ = nullptr;
  hipGraphExec_t replayable_ = nullptr;
};

}  // namespace

std::unique_ptr<StreamClock> clock_of(const Device& device) {
  return std::make_unique<Clock>(device);
}

}  // namespace rapt::hip
