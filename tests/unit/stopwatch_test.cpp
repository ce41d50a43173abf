// How runs on a GPU are timed, with a clock that writes down what is asked of it.
#include "cli/bench/stopwatch.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace rapt::cli {
namespace {

class Notes : public StreamClock {
 public:
  explicit Notes(std::string& notes) : notes_(notes) {}
  void* stream() const override {
    notes_ += "run ";  // asked for once a run
    return nullptr;
  }
  void clear_cache() override { notes_ += "clear "; }
  void start() override { notes_ += "start "; }
  double stop() override {
    notes_ += "stop ";
    return 1;
  }
  void capture(const std::function<void()>& work) override {
    notes_ += "capture ";
    work();
  }
  void replay() override { notes_ += "replay "; }

 private:
  std::string& notes_;
};

std::size_t count(const std::string& notes, const std::string& word) {
  std::size_t found = 0;
  for (std::size_t at = 0; (at = notes.find(word, at)) != std::string::npos; ++at) ++found;
  return found;
}

class StopwatchTest : public testing::Test {
 protected:
  StopwatchTest() : plan_(Problem::parse("b1 h1 s1 d1 f32 align4"), Device::cpu(1)) {
    workspace_ = Buffer(Device::cpu(1), plan_.workspace_bytes());
    float* at = values_.data();
    for (Tensor Arguments::*member : {&Arguments::q, &Arguments::k, &Arguments::v, &Arguments::out})
      arguments_.*member = Tensor::dense(at++, DType::f32, {1, 1, 1, 1});
  }
  cli::Run run() const { return {plan_, arguments_, workspace_.bytes()}; }

  std::array<float, 4> values_ = {};
  Plan plan_;
  Buffer workspace_;
  Arguments arguments_;
  std::string notes_;
};

TEST_F(StopwatchTest, ClearsTheCacheBeforeTheClockStarts) {
  const Stopwatch stopwatch(std::make_unique<Notes>(notes_));
  EXPECT_EQ(stopwatch.seconds(run()), 1);
  EXPECT_EQ(notes_, "clear start run stop ");
  EXPECT_TRUE(stopwatch.clears_cache());
}

TEST_F(StopwatchTest, TimesRunsInARowPerRunLaunchedAndReplayed) {
  const Stopwatch stopwatch(std::make_unique<Notes>(notes_));
  const auto [launched, replayed] = stopwatch.seconds_in_a_row(run());
  const std::size_t capture = notes_.find("capture ");
  const std::string before = notes_.substr(0, capture), after = notes_.substr(capture);
  EXPECT_EQ(count(notes_, "clear "), 0);
  EXPECT_EQ(count(before, "replay "), 0);
  EXPECT_EQ(count(after, "replay "), count(after, "start "));
  const std::size_t runs = count(after, "run ");  // captured once
  EXPECT_GT(runs, 1);
  EXPECT_EQ(count(before, "run "), runs * count(before, "start "));
  EXPECT_EQ(launched, 1.0 / double(runs));
  EXPECT_EQ(replayed, 1.0 / double(runs));
}

TEST_F(StopwatchTest, TakesTheHostsClockWhereADeviceHasNone) {
  EXPECT_FALSE(has_own_clock(Device::cpu()));
  const Stopwatch stopwatch(own_clock(Device::cpu()));
  EXPECT_FALSE(stopwatch.clears_cache());
  EXPECT_GT(stopwatch.seconds(run()), 0);
}

}  // namespace
}  // namespace rapt::cli
