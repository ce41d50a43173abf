#include "cli/progress.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "cli/terminal.hpp"
#include "src/core/text.hpp"

namespace rapt::cli {
namespace {

constexpr std::chrono::seconds tick_time(1), long_time(2);
bool silent = false;

}  // namespace

Progress::Progress(std::int64_t total)
    : total_(total),
      terminal_(!silent && terminal_width(stderr).has_value()),
      wipe_([this] { hide(); }) {
  if (terminal_) ticker_ = std::thread([this] { tick(); });
}

void Progress::silence() { silent = true; }

Progress::~Progress() {
  if (!terminal_) return;
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
    wipe();
  }
  ended_.notify_all();
  ticker_.join();
}

void Progress::show(std::int64_t done, std::string_view what) {
  if (!terminal_) return;
  const std::lock_guard lock(mutex_);
  done_ = done;
  what_ = what;
  who_.clear();
  shown_ = true;
  if (total_ > 0) draw();
}

void Progress::starts(std::string_view who, double expected_seconds) {
  if (!terminal_) return;
  const std::lock_guard lock(mutex_);
  who_ = who;
  expected_seconds_ = expected_seconds;
  started_ = Clock::now();
}

void Progress::hide() {
  if (!terminal_) return;
  const std::lock_guard lock(mutex_);
  shown_ = false;
  wipe();
}

void Progress::tick() {
  std::unique_lock lock(mutex_);
  while (!ended_.wait_for(lock, tick_time, [this] { return over_; })) {
    if (shown_ && (visible_ || !sign_of_life().empty())) draw();
  }
}

std::string Progress::sign_of_life() const {
  const auto elapsed = Clock::now() - started_;
  if (who_.empty() || elapsed < long_time) return "";
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(elapsed).count();
  std::string sign = seconds < 60
                         ? fmt::format("{}: {} s", who_, seconds)
                         : fmt::format("{}: {} min {} s", who_, seconds / 60, seconds % 60);
  if (expected_seconds_ > 0) sign += fmt::format(", estimate {}", human_seconds(expected_seconds_));
  return sign + " | ";
}

void Progress::draw() {
  constexpr std::int64_t longest_bar = 24;
  const std::size_t width = terminal_width(stderr).value_or(80) - 1;  // the cursor takes a cell
  std::string line;
  if (total_ > 0) {
    const auto bar = width < 60 ? longest_bar / 2 : longest_bar;
    const auto filled =
        static_cast<std::size_t>(std::clamp<std::int64_t>(done_, 0, total_) * bar / total_);
    line = fmt::format("[{:.<{}}] {}/{} ", std::string(filled, '#'), bar, done_, total_);
  }
  line += sign_of_life() + what_;
  // Carriage return, erase the line, draw without a newline: the cursor stays on the line.
  fmt::print(stderr, "\r\x1b[K{}", cut(line, width));
  std::fflush(stderr);
  visible_ = true;
}

void Progress::wipe() {
  if (!visible_) return;
  std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
  visible_ = false;
}

}  // namespace rapt::cli
