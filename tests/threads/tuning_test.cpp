// Plans made on many threads while `rapt tune` replaces the tuning file: each obeys it, before and
// after.
#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "src/core/tuning_file.hpp"
#include "tests/unit/environment.hpp"
#include "tests/unit/support.hpp"

namespace rapt::test {
namespace {

TEST(TuningFile, MayBeReplacedWhileThreadsMakePlans) {
  const Problem problem = Problem::parse("b1 h2 q3 kv70 d16 f32");
  const std::string file = ::testing::TempDir() + "rapt_threads_tuning.txt";
  const ScopedVariable variable("RAPT_TUNING", file.c_str());
  std::vector<TunedWinner> winners = {{.version = std::string(version()),
                                       .machine = tuning_machine(two_threads()),
                                       .problem = problem.to_string(),
                                       .kernel = "cpu.naive",
                                       .config = {},
                                       .seconds = 1}};
  const auto replace = [&] {
    winners.insert(winners.begin(), winners.back());
    winners.front().problem = "another";
    std::ofstream(file + ".new") << print_tuning(winners);
    std::filesystem::rename(file + ".new", file);
  };
  replace();
  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      do {
        const Explanation explanation = explain(problem, two_threads());
        EXPECT_TRUE(explanation.reason.starts_with("tuned: ")) << explanation.reason;
        EXPECT_TRUE(explanation.warnings.empty());
      } while (!stop);
    });
  }
  for (int time = 0; time < 50; ++time) replace();
  stop = true;
  for (std::thread& thread : threads) thread.join();
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace rapt::test
