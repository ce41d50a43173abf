// What the model finds out: kernels that do what Hopper does not forgive.
#include <gtest/gtest.h>

#include "rapt/rapt.hpp"
#include "src/cuda/hopper/pipeline.cuh"
#include "src/cuda/hopper/swizzled_tile.cuh"
#include "src/cuda/launch_entry.hpp"
#include "src/cuda/ptx/bulk_copy.cuh"
#include "src/cuda/ptx/wgmma.cuh"

namespace rapt::test {
namespace {

using cuda::block_memory;
using cuda::Target;
using cuda::ptx::Barrier;

// The sentence of the Error that a block of 128 threads ends with; empty if there is none.
template <class Parameters>
std::string fault(void (*kernel)(Parameters), Parameters parameters) {
  cudaLaunchConfig_t config = {};
  config.gridDim = 1;
  config.blockDim = model::warpgroup_threads;
  config.dynamicSmemBytes = 64 << 10;
  try {
    cuda::launch_entry(config, kernel, parameters);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::device_failure);
    return error.what();
  }
  return "";
}

void expect_fault(void (*kernel)(int), const char* part) {
  const std::string sentence = fault(kernel, 0);
  EXPECT_NE(sentence.find(part), std::string::npos) << sentence << "\nlacks: " << part;
}

Barrier& barrier() { return *reinterpret_cast<Barrier*>(block_memory); }
unsigned char* tile() { return block_memory + 1024; }

TEST(HopperFaults, ThreadsThatWaitForEverAreNamed) {
  expect_fault(
      [](int) {
        if (Target::thread() == 0) barrier().initialize(1);
        __syncthreads();
        barrier().wait(0);
      },
      "block 0 warp 3 waits for an mbarrier");
}

TEST(HopperFaults, BarriersAreInitializedAndHaveAsManyArrivalsAsTheyWereFor) {
  expect_fault([](int) { barrier().wait(0); }, "not initialized");
  expect_fault(
      [](int) {
        if (Target::thread() > 0) return;
        barrier().initialize(1);
        barrier().arrive_and_expect(16);  // bytes that never come
        barrier().arrive();
      },
      "more arrive at a barrier");
}

TEST(HopperFaults, LanesOfAWarpDoTheSame) {
  expect_fault(
      [](int) {
        if (Target::lane() < 16)
          __syncwarp();
        else
          static_cast<void>(__any_sync(Target::all_lanes, true));
      },
      "different things");
}

TEST(HopperFaults, BulkCopiesAreAlignedTo16Bytes) {
  expect_fault(
      [](int) {
        alignas(16) static float numbers[8];
        if (Target::thread() == 0) cuda::ptx::bulk_load(tile(), numbers + 1, 16, barrier());
      },
      "aligned to 16 bytes");
}

// A product of ones, (64, 16) · (16, 64).
struct Looked {
  float before = 0, after = 0;
};

TEST(HopperFaults, SumsOfProductsInFlightAreNotNumbers) {
  Looked looked;
  const auto multiply = [](Looked* to) {
    using Mma = cuda::ptx::Wgmma<F16, 64>;
    const std::uint16_t one = 0x3c00;
    for (int i = Target::thread(); i < 2 * 64 * 64; i += model::warpgroup_threads)
      reinterpret_cast<std::uint16_t*>(tile())[i] = one;
    __syncthreads();
    typename Mma::Sums sums;
    const auto matrix = cuda::ptx::MatrixDescriptor::k_major(tile());
    Mma::mma(sums, matrix, matrix, false);
    cuda::ptx::wgmma_commit();
    if (Target::thread() == 0) to->before = sums[0][0];
    cuda::ptx::wgmma_wait<0>();
    if (Target::thread() == 0) to->after = sums[0][0];
  };
  EXPECT_EQ(fault<Looked*>(multiply, &looked), "");
  EXPECT_TRUE(std::isnan(looked.before));
  EXPECT_EQ(looked.after, 16);
}

}  // namespace
}  // namespace rapt::test
