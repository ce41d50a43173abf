// Kernels for tests: what each thread does is a function of the Target.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rapt/rapt.hpp"
#include "src/emulator/launcher.hpp"

namespace rapt::test {

using emulator::Target;
using gpu::Grid;
using gpu::Index;

// A Kernel that has one parameter, or ignores it.
template <int threads_of_block, int bytes = 0>
struct KernelShape {
  using Parameters = int*;
  static constexpr int threads = threads_of_block, shared_bytes = bytes;
};

// The kernel at one wave size, with int memory for what it tells.
template <template <class> class Kernel, int wave_size>
void launch(Grid grid, int* memory) {
  emulator::Launcher<wave_size>::template launch<Kernel<Target<wave_size>>>(grid, memory, {});
}

// The kernel at both wave sizes, each time into new memory: what it has told, wave 32 first.
template <template <class> class Kernel>
std::vector<std::vector<int>> told(std::size_t count, Grid grid = {1}) {
  std::vector<std::vector<int>> memory(2, std::vector<int>(count));
  launch<Kernel, 32>(grid, memory[0].data());
  launch<Kernel, 64>(grid, memory[1].data());
  return memory;
}

// The sentence of the Error that the kernel ends with; empty if there is none.
template <template <class> class Kernel, int wave_size>
std::string fault(Grid grid = {1}) {
  std::vector<int> memory(1024);
  try {
    launch<Kernel, wave_size>(grid, memory.data());
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::device_failure);
    return error.what();
  }
  return "";
}

// The kernel fails at both wave sizes, with a sentence that has all these parts.
template <template <class> class Kernel>
void expect_fault(std::initializer_list<const char*> parts, Grid grid = {1}) {
  for (const std::string& sentence : {fault<Kernel, 32>(grid), fault<Kernel, 64>(grid)}) {
    for (const char* part : parts)
      EXPECT_NE(sentence.find(part), std::string::npos) << sentence << "\nlacks: " << part;
  }
}

// The same for kernels of matrix units, whose waves have 32 lanes.
template <template <class> class Kernel>
void expect_fault_of_warp(std::initializer_list<const char*> parts) {
  const std::string sentence = fault<Kernel, 32>();
  for (const char* part : parts)
    EXPECT_NE(sentence.find(part), std::string::npos) << sentence << "\nlacks: " << part;
}

template <template <class> class Kernel>
void expect_no_fault(Grid grid = {1}) {
  EXPECT_EQ((fault<Kernel, 32>(grid)), "");
  EXPECT_EQ((fault<Kernel, 64>(grid)), "");
}

}  // namespace rapt::test
