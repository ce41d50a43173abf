// What the harness feeds to kernels: cases that only count if they really occur.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "src/verify/data.hpp"

namespace rapt {
namespace {

TEST(HostileData, SharesPagesBetweenSequencesInSomeCasesAndNotInOthers) {
  const Problem problem = Problem::parse("b3 h1 q1 kv12 d2 f32 page4");
  std::set<bool> seen;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const verify::Data data(problem, Device::cpu(1), seed, verify::Fill::hostile);
    const Tensor table = data.on_host().page_table;
    std::set<std::int32_t> pages;
    for (std::int64_t sequence = 0; sequence < 3; ++sequence) {
      for (std::int64_t page = 0; page < 3; ++page) {
        pages.insert(
            static_cast<const std::int32_t*>(table.data)[sequence * table.stride[0] + page]);
      }
    }
    seen.insert(pages.size() < 9);
  }
  EXPECT_EQ(seen, (std::set<bool>{false, true}));
}

TEST(HostileData, HasBiasesThatAreAlignedAndOthersThatAreNot) {
  const Problem problem = Problem::parse("b1 h1 s16 d8 bf16 bias:qk");
  std::set<bool> seen;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    const verify::Data data(problem, Device::cpu(1), seed, verify::Fill::hostile);
    seen.insert(reinterpret_cast<std::uintptr_t>(data.on_device().bias.data) % 16 == 0);
  }
  EXPECT_EQ(seen, (std::set<bool>{false, true}));
}

}  // namespace
}  // namespace rapt
