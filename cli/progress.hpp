// A line on stderr for long work: a bar, what is worked on, and once a second a sign of life from a
// kernel that takes its time. Silent where stderr is not a terminal.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "cli/interruption.hpp"

namespace rapt::cli {

class Progress {
 public:
  explicit Progress(std::int64_t total);  // steps in all; 0: no bar, signs of life alone
  ~Progress();                            // wipes the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // No line from now on, whoever works.
  static void silence();

  // Shows what is being worked on now, after `done` steps.
  void show(std::int64_t done, std::string_view what);
  // `who` starts something; it is expected to take so many seconds, 0 where nobody knows. Where it
  // takes longer than two, the line tells of it.
  void starts(std::string_view who, double expected_seconds);
  // Wipes the line, so that results can be printed; the next show() draws it again.
  void hide();

 private:
  using Clock = std::chrono::steady_clock;

  void tick();
  void draw();  // with the lock, as are the next two
  void wipe();
  std::string sign_of_life() const;

  const std::int64_t total_;
  const bool terminal_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool over_ = false, shown_ = false, visible_ = false;
  std::int64_t done_ = 0;
  std::string what_, who_;
  double expected_seconds_ = 0;
  Clock::time_point started_;
  std::thread ticker_;
  AtInterruption wipe_;
};

}  // namespace rapt::cli
