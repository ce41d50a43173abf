// A GPU's own clock: events in a stream, with what an honest time needs around them, a cleared
// cache and a graph to replay.
#pragma once

#include <functional>

namespace rapt {

class StreamClock {
 public:
  virtual ~StreamClock() = default;

  virtual void* stream() const = 0;  // the work to be timed goes into it
  // What is put into the stream from here on finds nothing of its data in the GPU's cache.
  virtual void clear_cache() = 0;
  virtual void start() = 0;
  virtual double stop() = 0;  // waits for the stream; seconds on the GPU since start()
  // Runs `work`, and keeps what it puts into the stream as a graph in place of an earlier one.
  virtual void capture(const std::function<void()>& work) = 0;
  virtual void replay() = 0;  // puts the graph into the stream
};

}  // namespace rapt
