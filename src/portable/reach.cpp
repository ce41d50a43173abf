#include "src/portable/reach.hpp"

#include <string_view>

namespace rapt::gpu {
namespace {

// Fitted on an H200: bench/results, files named h200. Times are of runs replayed from a graph.
constexpr Reach hopper = {
    .measured = true,
    .launch_seconds = 2e-6,
    .combine = {.bandwidth = 0.4, .block_seconds = 0.5e-6, .step_seconds = 1.5e-6},
    .naive = {.rate = 0.015, .block_seconds = 1.5e-6},
    .shared = {.rate = 0.3, .block_seconds = 8e-6},
    .flash = {.rate = 0.4, .alone = 0.5},
    .flash_wide = {.rate = 0.28, .start_seconds = 1.5e-6},
    .flash_wide_small = {.rate = 0.1, .start_seconds = 1e-6},
    .split_kv = {.rate = 0.36,
                 .alone = 0.5,
                 .bandwidth = 0.88,
                 .block_seconds = 0.7e-6,
                 .step_seconds = 0.9e-6,
                 .paged = {.bandwidth = 0.955}},
    .tiny_kv = {.rate = 0.2},
    // Guesses, from forward's kernels of the same kinds.
    .naive_backward = {.rate = 0.02, .block_seconds = 0.2e-6},
    .flash_backward = {.rate = 0.25, .alone = 0.5},
    .gemm = {.rate = 0.65, .start_seconds = 8e-6},
    .gemm_tf32 = {.rate = 0.27, .start_seconds = 8e-6},
    .gemm_b16 = {.rate = 0.54, .start_seconds = 8e-6},
    .mma_b16 = {.rate = {0.157, 0.274, 0.28, 0.209},
                .alone = 0.65,
                .bandwidth = 0.78,
                .block_seconds = 1e-6,
                .step_seconds = 1.9e-6,
                .score_mod = 0.5,
                .paged = {.bandwidth = 0.85, .step_seconds = 1.85}},
    .mma_tf32 = {.rate = {0.102, 0.14, 0.118, 0.091},
                 .alone = 0.65,
                 .bandwidth = 0.78,
                 .block_seconds = 1e-6,
                 .step_seconds = 1.9e-6,
                 .score_mod = 0.5,
                 .paged = {.bandwidth = 0.85, .step_seconds = 1.85}},
    .mma_tf32x3 = {.rate = {0.064, 0.068, 0.065, 0.05},
                   .alone = 0.65,
                   .bandwidth = 0.78,
                   .block_seconds = 1e-6,
                   .step_seconds = 1.9e-6,
                   .score_mod = {0.35, 0.38, 0.45, 0.72},
                   .paged = {.bandwidth = 0.85, .step_seconds = 1.85}},
    .mma_short_rate = 0.85,
    .mma_decode_rate = 0.55,
    .mma_read_again = 1 / 1.5,
    .mma_load_ahead = 0.63,
    // Guesses, from forward's with the same products.
    .mma_backward_b16 = {.rate = {0.25, 0.25, 0.22, 0.12},
                         .alone = 0.65,
                         .bandwidth = 0.78,
                         .block_seconds = 2e-6,
                         .step_seconds = 2e-6,
                         .score_mod = 0.4},
    .mma_backward_tf32x3 = {.rate = {0.06, 0.06, 0.05, 0.03},
                            .alone = 0.65,
                            .bandwidth = 0.78,
                            .block_seconds = 2e-6,
                            .step_seconds = 2e-6,
                            .score_mod = 0.4},
    .wgmma = {.rate = {0.37, 0.62, 0.79, 0.78},
              .start_seconds = 2.2e-6,
              .block_seconds = 1.5e-6,
              .step_seconds = 0.5e-6,
              .score_mod = {0.6, 0.6, 0.71, 0.71},
              .paged = {.rate = 0.94, .bandwidth = 0.98}},
    .wgmma_decode = {.rate = 0.79,
                     .start_seconds = 2.2e-6,
                     .block_seconds = 1.5e-6,
                     .step_seconds = 1.05e-6,
                     .paged = {.rate = 0.94, .bandwidth = 0.98}},
    .wgmma_tf32x3 = {.rate = {0.094, 0.104, 0.109, 0.066},
                     .block_seconds = 3e-6,
                     .score_mod = {0.29, 0.3, 0.36, 0.5},
                     .paged = {.rate = 0.72}},
    // A guess, until it is timed.
    .wgmma_backward = {.rate = {0.3, 0.5, 0.55, 0.55},
                       .start_seconds = 2.2e-6,
                       .block_seconds = 2e-6,
                       .step_seconds = 1e-6,
                       .score_mod = 0.5},
    .wgmma_mask_rate = 0.37,
    .wgmma_bias_rate = 0.25,
};

// mma.sync reaches 618 of Hopper's 989 Tflop/s, and on chips whose own instruction it is all.
constexpr double mma_sync_of_hopper = 0.625;

constexpr Reach nominal(double mma_sync) {
  Reach reach = hopper;
  reach.measured = false;
  for (KernelReach* kernel : {&reach.mma_b16, &reach.mma_tf32, &reach.mma_tf32x3,
                              &reach.mma_backward_b16, &reach.mma_backward_tf32x3}) {
    ByDim& rate = kernel->rate;
    const double factor = mma_sync / mma_sync_of_hopper;
    rate = {factor * rate.d32, factor * rate.d64, factor * rate.d128, factor * rate.d256};
  }
  return reach;
}
constexpr Reach ampere = nominal(1);
// Its tensor cores are twice Hopper's, by an instruction that no kernel uses yet.
constexpr Reach blackwell = nominal(mma_sync_of_hopper / 2);

}  // namespace

const Reach& reach_of(const Device& device) {
  const std::string_view features = device.features;
  if (features.starts_with("sm_90")) return hopper;
  return features.starts_with("sm_10") ? blackwell : ampere;
}

}  // namespace rapt::gpu
