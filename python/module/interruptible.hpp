// rapt's threads as calls from Python use them: Ctrl-C ends a long call. The thread that called
// looks at Python's signals every now and then, between two pieces of its work; once it has seen
// one that raises, the pieces that are left are passed over, and the call raises instead of giving
// a result.
#pragma once

#include <chrono>

#include "python/module/array.hpp"

namespace rapt_python {

// For the plans of a CPU; lives as long as the process.
rapt::Executor* interruptible_threads(const rapt::Device& device);

// While it lives, work that this thread gives to interruptible threads can be interrupted. An
// interrupted call leaves Python's error set.
class Interruptible {
 public:
  Interruptible();
  ~Interruptible();
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

  // Takes the GIL and asks Python, if it is time to.
  void look();
  bool interrupted() const { return interrupted_; }

 private:
  std::chrono::steady_clock::time_point next_look_;
  bool interrupted_ = false;
};

}  // namespace rapt_python
