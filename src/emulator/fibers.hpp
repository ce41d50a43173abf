// Fibers, one for each thread of an emulated block: functions with stacks of their own that take
// turns on one thread of the machine. They and their stacks are made once and run any number of
// bodies.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include <boost/context/fiber.hpp>

namespace rapt::emulator {

class Fibers {
 public:
  static constexpr int outside = -1;  // whoever switches to a first fiber

  // What a fiber runs; never throws. Returns where to go at its end: a fiber, or outside.
  using Body = int (*)(void* context, int index);

  Fibers() = default;
  ~Fibers();
  Fibers(const Fibers&) = delete;
  Fibers& operator=(const Fibers&) = delete;

  // The first `count` fibers will call body(context, their index) when they are first switched to.
  // All bodies that were begun before have ended.
  void begin(int count, Body body, void* context);
  // Leaves the running fiber, or the outside, until somebody switches to it.
  void switch_to(int index);

 private:
  struct Fiber {
    boost::context::fiber place;  // where it goes on; empty while it runs
    const void* stack = nullptr;  // its lowest byte
    std::size_t bytes = 0;
  };

  Fiber& fiber(int index) { return fibers_[static_cast<std::size_t>(index - outside)]; }
  void make_fiber();
  boost::context::fiber live(int index, boost::context::fiber&& previous);
  void arrive(boost::context::fiber&& previous, void* left_before);

  std::vector<Fiber> fibers_ = std::vector<Fiber>(1);  // the outside, then the fibers
  Body body_ = nullptr;
  void* context_ = nullptr;
  bool ending_ = false;
  int running_ = outside, previous_ = outside;
};

}  // namespace rapt::emulator
