// The text of a tuning file: what is written reads back, what is damaged is found by its line.
#include <gtest/gtest.h>

#include "src/core/text.hpp"
#include "src/core/tuning_file.hpp"
#include "tests/unit/support.hpp"

namespace rapt {
namespace {

using test::throws;

constexpr const char* header = "rapt tuning 1\n";
constexpr const char* line =
    "0.1.0 | cpu | A chip | avx2 fma | 2 | b1 h1 s2 d4 f32 | cpu.naive | tile=8,splits=2 | 0.25\n";

std::string with(std::string_view part, std::string_view replacement) {
  std::string result = line;
  return result.replace(result.find(part), part.size(), replacement);
}

TEST(TuningFile, WhatIsPrintedReadsBack) {
  Device device = test::two_threads();
  device.name = "an odd | name\twith\nbreaks ";
  device.features = "";
  const TunedWinner winners[] = {
      {"0.1.0", tuning_machine(device), "b1 h1 s2 d4 f32", "cpu.naive", {}, 0.1},
      {"0.2.0", "gpu | other | - | 132", "b1 h1 s3 d4 f32", "gpu.fast",
       Config::parse("tile=64,splits=3"), 1.5e-6}};
  const std::vector<TunedWinner> read = parse_tuning(print_tuning(winners));
  ASSERT_EQ(read.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(read[i].version, winners[i].version);
    EXPECT_EQ(read[i].machine, winners[i].machine);
    EXPECT_EQ(read[i].problem, winners[i].problem);
    EXPECT_EQ(read[i].kernel, winners[i].kernel);
    EXPECT_EQ(read[i].config, winners[i].config);
    EXPECT_EQ(read[i].seconds, winners[i].seconds);
  }
}

TEST(TuningFile, AMachineIsKnownByItsThreadsAndAGpuByItsMultiprocessors) {
  Device device = test::two_threads();
  device.name = "A chip";
  device.features = "avx2";
  EXPECT_EQ(tuning_machine(device), "cpu | A chip | avx2 | 2");
  device.backend = Backend::cuda;
  device.threads = 1;
  device.multiprocessors = 132;
  EXPECT_EQ(tuning_machine(device), "cuda | A chip | avx2 | 132");
}

TEST(TuningFile, CommentsBlankLinesAndForeignLineEndsAreNoFault) {
  const auto read =
      parse_tuning(std::string("rapt tuning 1\r\n# a | comment\r\n\r\n") + line + "  \n");
  ASSERT_EQ(read.size(), 1U);
  EXPECT_EQ(read[0].machine, "cpu | A chip | avx2 fma | 2");
  EXPECT_EQ(read[0].config.to_string(), "tile=8,splits=2");
  EXPECT_TRUE(parse_tuning(header).empty());
}

TEST(TuningFile, DamageIsFoundByItsLine) {
  const auto damaged = [](const std::string& more, std::string_view sentence) {
    EXPECT_TRUE(throws(ErrorCode::invalid_argument, sentence,
                       [&] { parse_tuning(header + std::string(line) + more); }));
  };
  damaged(with("0.25", "soon"), "line 3 ends in seconds");
  damaged(with("0.25", "inf"), "line 3 ends in seconds");
  damaged(with("0.25", "-1"), "line 3 ends in seconds");
  damaged(with("tile=8", "tile"), "line 3 has a config that is not written key=number");
  damaged(with("cpu.naive", ""), "line 3 has an empty field");
  damaged(with("A chip", "A | chip"), "line 3 has 10 fields; a winner has 9");
  damaged(text("\n", with("A chip", "A \x01 chip")), "line 4 is not text");
  EXPECT_TRUE(throws(ErrorCode::invalid_argument, "line 1 is not 'rapt tuning 1'",
                     [] { parse_tuning(line); }));
}

TEST(TuningFile, MoreThanCanBeReadIsNotPrinted) {
  const std::vector<TunedWinner> many(
      100, {"0.1.0", "cpu | A chip | - | 2", std::string(100'000, 'b'), "cpu.naive", {}, 0.1});
  EXPECT_TRUE(throws(ErrorCode::invalid_argument, "at most 4.00 MiB", [&] { print_tuning(many); }));
}

}  // namespace
}  // namespace rapt
