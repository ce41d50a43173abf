// What the harness feeds to kernels, cases that only count if they really occur, and how far it
// lets results be off.
#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>

#include "src/verify/data.hpp"
#include "src/verify/reference.hpp"

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

// What the harness says of the oracle's result times `factor`.
std::string fault_of(const char* text, std::uint64_t seed, float factor) {
  const Problem problem = Problem::parse(text);
  const Device cpu = Device::cpu(1);
  verify::Data data(problem, cpu, seed, verify::Fill::hostile);
  data.upload();
  const Plan plan(problem, cpu, {.kernel = "cpu.oracle"});
  const Buffer workspace(cpu, plan.workspace_bytes());
  plan.run(data.on_device(), {.workspace = workspace.bytes()});
  std::vector<std::byte> out = data.out().download();
  for (std::int64_t i = 0; i < problem.v_dim; ++i) {
    std::byte* at = out.data() + data.out().front() + i * 4;
    float value;
    std::memcpy(&value, at, 4);
    value *= factor;
    std::memcpy(at, &value, 4);
  }
  return verify::Reference(data, 1, 1).compare(out, {}).fault;
}

// One pair with a score of −4 whose dot product has terms of 217 in all, before they cancel.
TEST(Reference, AllowsF32WhatCancelsInADotProductAndNoMore) {
  const char* const one_pair =
      "b1 h1 s1 d257 f32 causal offset4 mask:1 alibi sink lengths page7 k@3612,516,0 scale0.15625";
  EXPECT_EQ(fault_of(one_pair, 1797, 1 + 1.2e-5f), "");
  EXPECT_NE(fault_of(one_pair, 1797, 1 + 1.6e-5f), "");
  const std::string tf32 = std::string(one_pair) + " tf32";
  EXPECT_EQ(fault_of(tf32.c_str(), 1797, 1 + 3e-3f), "");
  EXPECT_NE(fault_of(tf32.c_str(), 1797, 1 + 6e-3f), "");
}

}  // namespace
}  // namespace rapt
