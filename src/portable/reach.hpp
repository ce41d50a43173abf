// What GPU kernels reach of a chip: a table for each architecture, measured or taken from one that
// was. Kernels count, wave_model.hpp makes seconds of counts, and every constant of time is here.
#pragma once

#include "rapt/rapt.hpp"

namespace rapt::gpu {

// By the head dim that tiles are made for.
struct ByDim {
  double d32, d64, d128, d256;
  constexpr ByDim(double all) : ByDim(all, all, all, all) {}
  constexpr ByDim(double to_32, double to_64, double to_128, double to_256)
      : d32(to_32), d64(to_64), d128(to_128), d256(to_256) {}
  constexpr double at(int dim) const {
    return dim <= 32 ? d32 : dim <= 64 ? d64 : dim <= 128 ? d128 : d256;
  }
};

// Factors, where keys lie in pages.
struct PagedReach {
  double rate = 1, bandwidth = 1, step_seconds = 1;
};

struct KernelReach {
  ByDim rate = 1;            // of the units' flops, by blocks that fill a multiprocessor
  double alone = 1;          // of that rate, by a block that has the multiprocessor for itself
  double bandwidth = 0.85;   // of the memory's
  double start_seconds = 0;  // of a launch, before its first block is at work
  double block_seconds = 0;  // of a block, before and after its steps
  double step_seconds = 0;   // of a step with nobody else at work: what its latencies add up to
  ByDim score_mod = 1;       // of `rate`, where scores are more than scaled dot products
  PagedReach paged = {};
};

// Rates of kernels on tensor cores are shares of the rate for 16 bits, in flops of the problem,
// whatever they are made of.
struct Reach {
  bool measured;  // on such a chip; else nominal: from Hopper's shares
  double launch_seconds;
  KernelReach combine;  // of partial results
  KernelReach naive, shared, flash, flash_wide, flash_wide_small, split_kv, tiny_kv;
  KernelReach naive_backward, flash_backward;
  KernelReach gemm, gemm_tf32, gemm_b16;
  KernelReach mma_b16, mma_tf32, mma_tf32x3;  // with tiles for prefill
  double mma_short_rate, mma_decode_rate;     // of that: rows shared by 2 and by 4 warps
  double mma_read_again;                      // of a kv head's keys, by each tile of its rows
  double mma_load_ahead;                      // of step_seconds, with tiles for prefill
  KernelReach mma_backward_b16, mma_backward_tf32x3;
  KernelReach wgmma, wgmma_decode, wgmma_tf32x3, wgmma_backward;
  double wgmma_mask_rate, wgmma_bias_rate;  // with masks; with biases that TMA cannot bring
};

// By the device's architecture.
const Reach& reach_of(const Device& device);

}  // namespace rapt::gpu
