// Selection with a tuning file, among the kernels of tests/broken/registry.cpp: cpu.cheapest has
// the least estimate and three configs, cpu.one_query refuses all but one query.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "rapt/rapt.hpp"
#include "src/core/tuning_file.hpp"
#include "tests/unit/environment.hpp"

namespace rapt {
namespace {

using test::ScopedVariable;
namespace files = std::filesystem;

const Problem problem = Problem::parse("b1 h2 s17 d16 f32");

Device device() { return Device::cpu(2); }

TunedWinner winner(const std::string& kernel, const std::string& config = "") {
  return {.version = std::string(version()),
          .machine = tuning_machine(device()),
          .problem = problem.to_string(),
          .kernel = kernel,
          .config = Config::parse(config),
          .seconds = 0.00125};
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// A folder for a tuning file that RAPT_TUNING names.
class Tuned : public testing::Test {
 protected:
  Tuned() { files::create_directories(folder_); }
  ~Tuned() override { files::remove_all(folder_); }

  // In place of what is there, as `rapt tune` does: written in place, a file of the same length and
  // instant would pass for the old one.
  void write(const std::string& content) const {
    std::ofstream(file_ + ".new") << content;
    files::rename(file_ + ".new", file_);
  }
  void write(const TunedWinner& one) const { write(print_tuning({&one, 1})); }
  std::string file() const { return file_; }
  std::string folder() const { return folder_; }

  // The choice is the least estimate, and the one warning says why.
  void expect_ignored(std::string_view why) const {
    const Explanation explanation = explain(problem, device());
    EXPECT_EQ(explanation.kernel, "cpu.cheapest");
    EXPECT_EQ(explanation.reason, "least estimate");
    ASSERT_EQ(explanation.warnings.size(), 1U);
    const std::string& warning = explanation.warnings.front();
    EXPECT_TRUE(contains(warning, why)) << warning;
    EXPECT_TRUE(contains(warning, file_)) << warning;
    EXPECT_TRUE(contains(warning, "`rapt tune`")) << warning;
    EXPECT_TRUE(contains(explanation.to_string(), "warning: " + warning));
    EXPECT_EQ(Plan(problem, device()).config().to_string(), "tile=64,splits=1");
  }

 private:
  std::string folder_ = testing::TempDir() + "rapt_tuning_" +
                        testing::UnitTest::GetInstance()->current_test_info()->name();
  std::string file_ = folder_ + "/tuning.txt";
  ScopedVariable variable_{"RAPT_TUNING", file_.c_str()};
};

TEST_F(Tuned, WinnerBeatsTheLeastEstimate) {
  write(winner("cpu.naive"));
  const Explanation explanation = explain(problem, device());
  EXPECT_EQ(explanation.kernel, "cpu.naive");
  EXPECT_EQ(explanation.reason, "tuned: 1.25 ms measured, " + file());
  EXPECT_EQ(explanation.least_estimate, "cpu.cheapest");
  EXPECT_TRUE(explanation.warnings.empty());
  EXPECT_EQ(Plan(problem, device()).kernel(), "cpu.naive");
}

TEST_F(Tuned, WinnerIsFoundByTheOlderNamesOfTokens) {
  TunedWinner old = winner("cpu.naive");
  old.problem = "b2 h2 q1 kv9 d8 f32 sink lengths12";
  write(old);
  EXPECT_EQ(explain(Problem::parse(old.problem), device()).kernel, "cpu.naive");
  EXPECT_EQ(read_tuning_file(file()).at(0).problem, "b2 h2 q1 kv9 d8 f32 sinks kv_lengths12");
}

TEST_F(Tuned, WinnerBringsItsConfig) {
  write(winner("cpu.cheapest", "tile=32,splits=2"));
  EXPECT_EQ(Plan(problem, device()).config().to_string(), "tile=32,splits=2");
  const Plan named(problem, device(), {.kernel = "cpu.cheapest"});
  EXPECT_EQ(named.config().to_string(), "tile=32,splits=2");
  EXPECT_EQ(explain(problem, device(), {.kernel = "cpu.cheapest"}).reason,
            "named by the caller; config tuned: 1.25 ms measured, " + file());
}

TEST_F(Tuned, ConfigValuesOfTheCallerBeatThoseOfTheWinner) {
  write(winner("cpu.cheapest", "tile=32,splits=2"));
  const PlanOptions options = {.config = Config::parse("tile=32")};
  EXPECT_EQ(Plan(problem, device(), options).config().to_string(), "tile=32,splits=1");
  EXPECT_EQ(explain(problem, device(), options).reason,
            "tuned: " + file() + "; config of the caller");
}

TEST_F(Tuned, KernelOfTheCallerAndOfTheEnvironmentBeatTheWinner) {
  write(winner("cpu.naive"));
  const Explanation by_caller = explain(problem, device(), {.kernel = "cpu.cheapest"});
  EXPECT_EQ(by_caller.kernel, "cpu.cheapest");
  EXPECT_EQ(by_caller.reason, "named by the caller");
  const ScopedVariable kernel("RAPT_KERNEL", "cpu.oracle");
  EXPECT_EQ(explain(problem, device()).kernel, "cpu.oracle");
  EXPECT_EQ(explain(problem, device()).reason, "named by RAPT_KERNEL");
}

TEST_F(Tuned, WinnerOfAnotherProblemOrMachineChangesNothing) {
  TunedWinner other_problem = winner("cpu.naive");
  other_problem.problem = "b1 h2 s18 d16 f32";
  TunedWinner other_threads = winner("cpu.naive");
  other_threads.machine = tuning_machine(Device::cpu(1));
  Device other = device();
  other.name = "another chip";
  TunedWinner other_chip = winner("cpu.naive");
  other_chip.machine = tuning_machine(other);
  other = device();
  other.features += " more";
  TunedWinner other_features = winner("cpu.naive");
  other_features.machine = tuning_machine(other);
  other = device();
  other.backend = Backend::emu;
  TunedWinner other_backend = winner("cpu.naive");
  other_backend.machine = tuning_machine(other);
  const TunedWinner all[] = {other_problem, other_threads, other_chip, other_features,
                             other_backend};
  write(print_tuning(all));
  const Explanation explanation = explain(problem, device());
  EXPECT_EQ(explanation.reason, "least estimate");
  EXPECT_TRUE(explanation.warnings.empty());
  EXPECT_EQ(Plan(problem, Device::cpu(1)).kernel(), "cpu.naive");
}

TEST_F(Tuned, ThreadsOfAnExecutorCount) {
  class Lent : public Executor {
    std::int32_t concurrency() const override { return 2; }
    void parallel_for(std::int64_t count, void (*body)(void*, std::int64_t),
                      void* context) override {
      for (std::int64_t i = 0; i < count; ++i) body(context, i);
    }
  };
  Lent executor;
  write(winner("cpu.naive"));
  EXPECT_EQ(Plan(problem, Device::cpu(1)).kernel(), "cpu.cheapest");
  EXPECT_EQ(Plan(problem, Device::cpu(1), {.executor = &executor}).kernel(), "cpu.naive");
}

TEST_F(Tuned, WinnerOfAnotherVersionIsStale) {
  TunedWinner old = winner("cpu.naive");
  old.version = "0.0.1";
  write(old);
  expect_ignored("it was measured by rapt 0.0.1, this is rapt " + std::string(version()));
  const TunedWinner both[] = {old, winner("cpu.naive"), old};
  write(print_tuning(both));
  EXPECT_EQ(explain(problem, device()).kernel, "cpu.naive");
  EXPECT_TRUE(explain(problem, device()).warnings.empty());
}

TEST_F(Tuned, WinnerThatThisBuildCannotRunIsStale) {
  write(winner("cpu.gone"));
  expect_ignored("there is no kernel 'cpu.gone'");
  write(winner("cpu.one_query"));
  expect_ignored("cpu.one_query refuses: it takes one query a sequence");
  write(winner("cpu.oracle"));
  expect_ignored("cpu.oracle is never chosen on cpu");
  write(winner("cpu.cheapest", "tile=16,splits=1"));
  expect_ignored("cpu.cheapest does not run with tile=16,splits=1");
  write(winner("cpu.cheapest"));
  expect_ignored("cpu.cheapest does not run with no config");
  write(winner("cpu.naive", "tile=16"));
  expect_ignored("cpu.naive does not run with tile=16");
}

TEST_F(Tuned, DamagedFileIsIgnoredAsAWhole) {
  const TunedWinner good = winner("cpu.naive");
  const std::string sound = print_tuning({&good, 1});
  write("");
  expect_ignored("line 1 is not 'rapt tuning 1'");
  write("rapt tuning 2\n");
  expect_ignored("line 1 is not 'rapt tuning 1'");
  write(std::string("\x00\x93\xff\x01 binary", 12));
  expect_ignored("line 1 is not 'rapt tuning 1'");
  write(sound + "half a line | of a win");
  expect_ignored("line 4 has 2 fields; a winner has 9");
  write(sound + std::string("\x00\x93\xff\x01\n", 5));
  expect_ignored("line 4 is not text");
  write(std::string(std::size_t{5} << 20, 'x'));
  expect_ignored("is larger than 4.00 MiB");
  write(sound);
  EXPECT_EQ(explain(problem, device()).kernel, "cpu.naive");
}

TEST_F(Tuned, FileThatCannotBeReadIsIgnored) {
  expect_ignored("which cannot be read: No such file or directory");
  files::create_directory(file());
  expect_ignored("is not a regular file");
  files::remove(file());
  ASSERT_EQ(::mkfifo(file().c_str(), 0600), 0);
  expect_ignored("is not a regular file");
}

TEST_F(Tuned, FileIsReadAgainWhenAnotherOneIsThere) {
  write(winner("cpu.naive"));
  EXPECT_EQ(Plan(problem, device()).kernel(), "cpu.naive");
  write(winner("cpu.cheapest", "tile=32,splits=2"));
  EXPECT_EQ(Plan(problem, device()).config().to_string(), "tile=32,splits=2");
  const TunedWinner third = winner("cpu.naive");
  std::ofstream(file() + ".other") << print_tuning({&third, 1});
  const ScopedVariable variable("RAPT_TUNING", (file() + ".other").c_str());
  EXPECT_EQ(Plan(problem, device()).kernel(), "cpu.naive");
}

TEST_F(Tuned, FileInTheConfigFolderIsObeyedUnlessRaptTuningIsSet) {
  const ScopedVariable config("XDG_CONFIG_HOME", folder().c_str());
  files::create_directory(folder() + "/rapt");
  const TunedWinner one = winner("cpu.naive");
  std::ofstream(folder() + "/rapt/tuning.txt") << print_tuning({&one, 1});
  {
    const ScopedVariable none("RAPT_TUNING", "");
    EXPECT_EQ(explain(problem, device()).reason, "least estimate");
    EXPECT_TRUE(explain(problem, device()).warnings.empty());
  }
  ::unsetenv("RAPT_TUNING");
  EXPECT_EQ(explain(problem, device()).kernel, "cpu.naive");
  const ScopedVariable nowhere("XDG_CONFIG_HOME", (folder() + "/nowhere").c_str());
  EXPECT_EQ(explain(problem, device()).reason, "least estimate");
  EXPECT_TRUE(explain(problem, device()).warnings.empty());
  const ScopedVariable relative("XDG_CONFIG_HOME", "config");
  const ScopedVariable home("HOME", folder().c_str());
  files::create_directory(folder() + "/.config");
  files::rename(folder() + "/rapt", folder() + "/.config/rapt");
  EXPECT_EQ(explain(problem, device()).kernel, "cpu.naive");
}

TEST_F(Tuned, DecidesNothingWhereBitsMustNotDependOnTheBatch) {
  Problem invariant = problem;
  invariant.batch_invariant = true;
  TunedWinner one = winner("cpu.cheapest", "tile=32,splits=2");
  one.problem = invariant.to_string();
  write(one);
  const Explanation explanation = explain(invariant, device());
  EXPECT_EQ(explanation.reason, "least estimate for any batch");
  EXPECT_TRUE(explanation.warnings.empty());
  EXPECT_EQ(Plan(invariant, device()).config().to_string(), "tile=64,splits=1");
  const PlanOptions named = {.kernel = "cpu.cheapest"};
  EXPECT_EQ(Plan(invariant, device(), named).config().to_string(), "tile=64,splits=1");
}

TEST_F(Tuned, WarningIsLoggedOnceForAPlan) {
  write("junk");
  const ScopedVariable log("RAPT_LOG", "1");
  testing::internal::CaptureStderr();
  const Plan plan(problem, device());
  const std::string lines = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::ranges::count(lines, '\n'), 2) << lines;
  EXPECT_TRUE(contains(lines, "(least estimate)")) << lines;
  EXPECT_TRUE(contains(lines, "\nrapt: warning: the tuning file " + file())) << lines;
}

}  // namespace
}  // namespace rapt
