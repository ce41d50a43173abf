// Ctrl-C, SIGTERM and SIGHUP end the program at once, whatever it computes; what must not stay
// behind half done is seen to first.
//
// A thread waits for the signals, so that what is done then may lock, allocate and write files.
#pragma once

#include <functional>
#include <list>
#include <mutex>

namespace rapt::cli {

// Once, before any other thread is started. Signals that whoever started the program had it ignore
// (nohup does) stay ignored.
void watch_for_interruption();

// While it lives, an interruption calls `action` before the program ends, the youngest first.
class AtInterruption {
 public:
  explicit AtInterruption(std::function<void()> action);
  ~AtInterruption();
  AtInterruption(const AtInterruption&) = delete;
  AtInterruption& operator=(const AtInterruption&) = delete;

 private:
  std::list<std::function<void()>>::iterator place_;
};

// While it lives, an interruption waits for it, up to a second.
class Uninterrupted {
 public:
  Uninterrupted();

 private:
  std::unique_lock<std::recursive_timed_mutex> lock_;
};

}  // namespace rapt::cli
