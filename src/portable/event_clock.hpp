// The clock of a GPU, by events in a stream. The runtimes of NVIDIA and AMD differ in the names of
// their functions alone: `Api` has them.
#pragma once

#include <algorithm>
#include <cstddef>

#include "rapt/rapt.hpp"
#include "src/core/stream_clock.hpp"

namespace rapt::gpu {

inline constexpr double least_scratch = 256 << 20;  // bytes
inline constexpr double caches_of_scratch = 2.5;    // times the cache

template <class Api>
class EventClock final : public StreamClock {
 public:
  explicit EventClock(const Device& device)
      : device_(device.index),
        scratch_bytes_(static_cast<std::size_t>(
            std::max(least_scratch, caches_of_scratch * device.nominal.cache_bytes))) {
    try {
      const typename Api::UseDevice current(device_);
      // A stream that waits for the default one, where copies to the device may still be under way.
      Api::require(Api::create_stream(&stream_), "create a stream");
      Api::require(Api::create_event(&begin_), "create an event");
      Api::require(Api::create_event(&end_), "create an event");
      Api::require(Api::allocate(&scratch_, scratch_bytes_),
                   "allocate memory to clear the cache with");
    } catch (...) {
      destroy();
      throw;
    }
  }
  ~EventClock() override { destroy(); }
  EventClock(const EventClock&) = delete;
  EventClock& operator=(const EventClock&) = delete;

  void* stream() const override { return stream_; }

  void clear_cache() override {
    const typename Api::UseDevice current(device_);
    Api::require(Api::fill(scratch_, 0, scratch_bytes_, stream_), "clear the cache");
  }

  void start() override {
    const typename Api::UseDevice current(device_);
    Api::require(Api::record(begin_, stream_), "record an event");
  }

  double stop() override {
    const typename Api::UseDevice current(device_);
    Api::require(Api::record(end_, stream_), "record an event");
    Api::require(Api::wait_for(end_), "finish the timed work");
    float milliseconds = 0;
    Api::require(Api::milliseconds_between(&milliseconds, begin_, end_),
                 "read the time between events");
    return 1e-3 * milliseconds;
  }

  void capture(const std::function<void()>& work) override {
    const typename Api::UseDevice current(device_);
    release_graph();
    Api::require(Api::begin_capture(stream_, Api::this_thread), "begin to capture a graph");
    typename Api::Graph graph = nullptr;
    try {
      work();
    } catch (...) {
      static_cast<void>(Api::end_capture(stream_, &graph));
      if (graph) static_cast<void>(Api::destroy_graph(graph));
      static_cast<void>(Api::forget_error());
      throw;
    }
    Api::require(Api::end_capture(stream_, &graph), "capture a graph");
    const auto status = Api::instantiate(&replayable_, graph);
    static_cast<void>(Api::destroy_graph(graph));
    Api::require(status, "instantiate a graph");
  }

  void replay() override {
    const typename Api::UseDevice current(device_);
    Api::require(Api::launch(replayable_, stream_), "launch a graph");
  }

 private:
  void release_graph() noexcept {
    if (replayable_) static_cast<void>(Api::destroy_replayable(replayable_));
    replayable_ = nullptr;
  }

  void destroy() noexcept {
    release_graph();
    if (scratch_) static_cast<void>(Api::release(scratch_));
    for (const typename Api::Event event : {begin_, end_}) {
      if (event) static_cast<void>(Api::destroy_event(event));
    }
    if (stream_) static_cast<void>(Api::destroy_stream(stream_));
  }

  int device_;
  std::size_t scratch_bytes_;
  void* scratch_ = nullptr;
  typename Api::Stream stream_ = nullptr;
  typename Api::Event begin_ = nullptr, end_ = nullptr;
  typename Api::Replayable replayable_ = nullptr;
};

}  // namespace rapt::gpu
