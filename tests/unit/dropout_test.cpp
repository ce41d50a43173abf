// Which pairs dropout keeps.
#include "src/semantics/dropout.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

#include "src/cpu/dropout.hpp"
#include "tests/unit/support.hpp"

namespace rapt::test {
namespace {

using semantics::Index;
using semantics::PhiloxKey;
using semantics::PhiloxWords;

// Dropout of a seed and an offset.
class Seeded {
 public:
  Seeded(std::int64_t seed, std::int64_t offset, std::uint32_t dropped)
      : numbers_{seed, offset}, dropped_(dropped) {}

  semantics::DropoutStream stream(Index sequence = 0, Index head = 0) const {
    return semantics::dropout_stream({numbers_, dropped_}, sequence, head);
  }
  double kept_share(Index queries, Index keys, Index sequence = 0, Index head = 0) const {
    semantics::DropoutPairs pairs(stream(sequence, head));
    Index kept = 0;
    for (Index query = 0; query < queries; ++query) {
      for (Index key = 0; key < keys; ++key) kept += pairs.keeps(query, key);
    }
    return double(kept) / double(queries * keys);
  }

 private:
  std::int64_t numbers_[2];
  std::uint32_t dropped_;
};

// Of Random123, the paper's own library: kat_vectors, philox4x32 10.
TEST(Dropout, PhiloxGivesThePublishedNumbers) {
  struct Known {
    PhiloxWords counter;
    PhiloxKey key;
    std::vector<std::uint32_t> words;
  };
  constexpr std::uint32_t all = 0xffffffff;
  for (const Known& known :
       {Known{{{0, 0, 0, 0}}, {{0, 0}}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        Known{
            {{all, all, all, all}}, {{all, all}}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        Known{{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
              {{0xa4093822, 0x299f31d0}},
              {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}}) {
    const PhiloxWords words = semantics::philox(known.key, known.counter);
    EXPECT_EQ(std::vector<std::uint32_t>(words.word, words.word + 4), known.words);
  }
}

TEST(Dropout, ADrawServesSixteenPairs) {
  const semantics::DropoutStream stream = Seeded(5, 6, 128).stream(3, 2);
  for (const Index query : {Index{0}, Index{37}, (Index{1} << 40) + 64}) {
    for (const Index key : {Index{2}, Index{101}, (Index{1} << 41) + 7}) {
      const Index first_query = query - query % 32 + query % 8,
                  first_key = key - key % 32 + key % 8;
      const semantics::DropoutBytes bytes = semantics::draw_dropout(stream, query, key);
      for (int m = 0; m < 4; ++m) {
        for (int n = 0; n < 4; ++n) {
          const bool kept = semantics::keeps(stream, bytes, m, n);
          EXPECT_EQ(kept, (bytes.word[m] >> (8 * n) & 0xff) >= 128);
          EXPECT_EQ(kept, semantics::keeps(stream, first_query + 8 * m, first_key + 8 * n));
        }
      }
    }
  }
}

TEST(Dropout, PairsInAnyOrderAreThoseOfSingleDraws) {
  const semantics::DropoutStream stream = Seeded(-1, 9, 77).stream(1, 1);
  semantics::DropoutPairs by_rows(stream), by_columns(stream);
  for (Index a = 0; a < 80; ++a) {
    for (Index b = 0; b < 80; ++b) {
      EXPECT_EQ(by_rows.keeps(a, b), semantics::keeps(stream, a, b));
      EXPECT_EQ(by_columns.keeps(b, a), semantics::keeps(stream, b, a));
    }
  }
}

TEST(Dropout, RowsOfTheCpuAreTheSamePairs) {
  const semantics::DropoutStream stream = Seeded(12, 34, 100).stream(0, 7);
  for (const auto& [begin, end] : {std::pair{0, 32}, std::pair{5, 6}, std::pair{31, 33},
                                   std::pair{7, 200}, std::pair{64, 64}, std::pair{90, 131}}) {
    for (const Index query : {0, 3, 9, 31, 50}) {
      std::vector<float> numbers(static_cast<std::size_t>(end - begin), 3.0f);
      apply_dropout(stream, query, {begin, end}, 2, numbers.data());
      for (Index key = begin; key < end; ++key) {
        EXPECT_EQ(numbers[static_cast<std::size_t>(key - begin)],
                  semantics::keeps(stream, query, key) ? 6.0f : 0.0f)
            << query << ", " << key;
      }
    }
  }
}

TEST(Dropout, DropsAsManyPairsAsItSays) {
  constexpr Index side = 512;
  for (const std::uint32_t dropped : {1u, 26u, 128u, 255u}) {
    const double p = dropped / 256.0, deviation = std::sqrt(p * (1 - p)) / side;
    for (const std::int64_t seed : {0, 1, 0x7fffffff}) {
      EXPECT_NEAR(Seeded(seed, 0, dropped).kept_share(side, side), 1 - p, 5 * deviation)
          << dropped << " of 256, seed " << seed;
    }
  }
}

TEST(Dropout, EverySeedOffsetSequenceAndHeadDropsOtherPairs) {
  const auto pattern = [](const semantics::DropoutStream& stream) {
    std::vector<bool> kept;
    for (Index query = 0; query < 16; ++query) {
      for (Index key = 0; key < 16; ++key) kept.push_back(semantics::keeps(stream, query, key));
    }
    return kept;
  };
  std::set<std::vector<bool>> patterns;
  for (const std::int64_t seed : {std::int64_t{0}, std::int64_t{1}, std::int64_t{1} << 32}) {
    for (const std::int64_t offset : {std::int64_t{0}, std::int64_t{1}, std::int64_t{-1} << 40}) {
      for (Index sequence = 0; sequence < 3; ++sequence) {
        for (Index head = 0; head < 3; ++head)
          patterns.insert(pattern(Seeded(seed, offset, 128).stream(sequence, head)));
      }
    }
  }
  EXPECT_EQ(patterns.size(), 3u * 3 * 3 * 3);
}

TEST(Dropout, WithoutASeedNothingIsDropped) {
  const semantics::DropoutStream stream = semantics::dropout_stream({nullptr, 0}, 4, 2);
  EXPECT_TRUE(semantics::keeps(stream, 3, 4));
  EXPECT_EQ(semantics::kept_scale<double>({nullptr, 0}), 1);
}

TEST(Dropout, ProblemsHaveItInStepsOf256) {
  EXPECT_EQ(Problem::parse("s8 d4 dropout0.1").dropout, 26 / 256.0f);
  EXPECT_EQ(Problem::parse("s8 d4 dropout0.1").to_string(), "b1 h1 s8 d4 f32 dropout0.1015625");
  EXPECT_EQ(Problem::parse("s8 d4 dropout0.1"), Problem::parse("s8 d4 dropout0.102"));
  EXPECT_EQ(Problem::parse("s8 d4 dropout0.996").dropout, 255 / 256.0f);
}

TEST(Dropout, NeedsASeedAndNothingElseHasOne) {
  const Example example("b1 h1 s8 d4 f32 dropout0.5");
  EXPECT_EQ(Problem::of(example.arguments, {.dropout = 0.5}), example.problem);
  Arguments without = example.arguments;
  without.seed = {};
  EXPECT_TRUE(throws(ErrorCode::invalid_argument, "seed is missing; the problem needs it as i64",
                     [&] { Problem::of(without, {.dropout = 0.5}); }));
  EXPECT_TRUE(throws(ErrorCode::invalid_argument, "seed is given but the problem has none",
                     [&] { Problem::of(example.arguments); }));
  Arguments of_one = example.arguments;
  of_one.seed.size[0] = 1;
  EXPECT_TRUE(throws(ErrorCode::invalid_argument, "seed's only axis has size 1",
                     [&] { Problem::of(of_one, {.dropout = 0.5}); }));
}

// The results follow the memory that the seed lies in: a graph that is replayed reads it again.
TEST(Dropout, EachRunReadsTheSeed) {
  Example example("b1 h2 s40 d8 f32 dropout0.5");
  auto* seed = static_cast<std::int64_t*>(example.arguments.seed.data);
  const auto results = [&](std::int64_t offset) {
    seed[1] = offset;
    example.run("cpu.flash");
    return example.results();
  };
  const std::vector<float> first = results(1);
  EXPECT_NE(results(2), first);
  EXPECT_EQ(results(1), first);
}

}  // namespace
}  // namespace rapt::test
