// cuda.flash_wgmma_f32 as the registry knows it: what it takes, and how long it should take.
#include <algorithm>
#include <cmath>

#include "src/core/text.hpp"
#include "src/cuda/flash_wgmma_f32/launch.hpp"
#include "src/cuda/hopper.hpp"
#include "src/cuda/kernels.hpp"
#include "src/portable/common.hpp"
#include "src/portable/key_splits.hpp"

namespace rapt {
namespace cuda::flash_wgmma_f32 {

// In the .cu files.
extern template void launch<tiles_for(32, false)>(const Parameters&, gpu::Where);
extern template void launch<tiles_for(32, true)>(const Parameters&, gpu::Where);
extern template void launch<tiles_for(64, false)>(const Parameters&, gpu::Where);
extern template void launch<tiles_for(64, true)>(const Parameters&, gpu::Where);
extern template void launch<tiles_for(128, false)>(const Parameters&, gpu::Where);
extern template void launch<tiles_for(128, true)>(const Parameters&, gpu::Where);
extern template void launch<tiles_for(256, false)>(const Parameters&, gpu::Where);
extern template void launch<tiles_for(256, true)>(const Parameters&, gpu::Where);

namespace {

using gpu::Index;

constexpr Index most_dim = 256, most_length = 1000000000;
// What three products leave out of a single one shows where nothing is summed.
constexpr Index least_dim = 8;

template <class Function>
void with_tiles(const Problem& p, Function function) {
  gpu::with_one_of<32, 64, 128, 256>(std::max(p.qk_dim, p.v_dim), [&]<int dim>() {
    gpu::is_general(p) ? function.template operator()<tiles_for(dim, true)>()
                       : function.template operator()<tiles_for(dim, false)>();
  });
}

TileConfig tiles_of(const Problem& p) {
  const Index dim = std::max(p.qk_dim, p.v_dim);
  return tiles_for(static_cast<int>(std::min(dim, most_dim)), gpu::is_general(p));
}

Support supports(const Problem& p, const Device& device) {
  if (const Support hopper = on_hopper(device); !hopper) return hopper;
  if (p.dtype != DType::f32)
    return Support::no(text("it takes f32; this problem is ", name(p.dtype)));
  if (p.tf32) return Support::no("it takes f32 with all its places; this problem says tf32");
  if (std::max(p.qk_dim, p.v_dim) > most_dim) return gpu::refuse_dim(p, most_dim);
  if (std::min(p.qk_dim, p.v_dim) < least_dim)
    return Support::no(text("it takes head dims of ", least_dim, " or more; this problem has ",
                            std::min(p.qk_dim, p.v_dim)));
  if (const Support fit = gpu::lengths_fit(p, most_length); !fit) return fit;
  if (const Support fit = gpu::rows_fit(p, device); !fit) return fit;
  return gpu::splits_fit(p, device, {.rows = tiles_of(p).rows(), .splits = 1});
}

// About what a block takes before and after all tiles; for a score that is more than a scaled dot
// product, as cheap as such a score can be, which is what flash_mma expects too; and for 16 bytes
// whose page a thread must look up.
constexpr double block_seconds = 3e-6, scoring_seconds = 0.65e-9, lookup_seconds = 0.2e-6;

// What a tile of keys takes. Of the tensor cores' rate for f16, per flop of the problem, the
// products reach `rate`.
double step_seconds(const Problem& p, const Device& device, const TileConfig& tiles) {
  const double rate = tiles.dim <= 32    ? 0.08
                      : tiles.dim <= 64  ? 0.1006
                      : tiles.dim <= 128 ? 0.1114
                                         : 0.0633;
  const double pairs = double(tiles.keys) * tiles.rows();
  const double products = 4.0 * tiles.dim * pairs * std::max(device.multiprocessors, 1) /
                          (rate * std::max(device.nominal.matrix_flops, 1.0));
  const double one_warpgroup = tiles.row_warps == 4 ? 2 : 1;
  const double score_mod = gpu::has_score_mod(p) ? one_warpgroup * scoring_seconds * pairs : 0;
  const double pieces = 2.0 * tiles.keys * tiles.dim / 4 / producer_threads;
  const double lookups = p.paged() ? lookup_seconds * pieces : 0;
  return std::max(products + score_mod, lookups);
}

// Multiprocessors take blocks one after another.
Estimate estimate(const Task& task) {
  const Problem& p = task.problem;
  const TileConfig tiles = tiles_of(p);
  const bool uneven = p.window.left || p.window.right || p.varlen || p.lengths;
  const double multiprocessors = std::max(task.device.multiprocessors, 1);
  const double step = step_seconds(p, task.device, tiles);
  const double most_keys = double(gpu::expected_keys(p));
  const double rows = double(std::max<Index>(p.total_q, 1)) * double(p.heads);
  const double row_tiles = double(std::max<Index>(gpu::tiles_of_rows(p, tiles.rows()), 1));
  // That a row sees, and a tile of rows on a diagonal beyond that.
  const double keys = p.flops() / (2.0 * double(std::max<Index>(p.qk_dim + p.v_dim, 1)) * rows);
  const double queries = double(tiles.rows()) * double(p.kv_heads) / double(p.heads);
  const double beyond = uneven ? (tiles.keys + std::min(double(p.q_len), queries)) / 2 : 0;
  const auto seconds_of = [&](double seen) {
    return block_seconds + std::ceil(std::min(seen, most_keys) / tiles.keys) * step;
  };
  const double filled = p.varlen ? double(p.total_q) / std::max(1.0, double(p.q_len * p.batch)) : 1;
  const double blocks =
      double(p.batch) * double(p.kv_heads) * std::max(1.0, row_tiles * filled) / multiprocessors;
  const double seconds = uneven
                             ? std::max(blocks * seconds_of(keys + beyond), seconds_of(most_keys))
                             : std::ceil(blocks) * seconds_of(keys);
  return estimate_from(seconds, 1, p.bytes(), 0.85 * task.device.nominal.read_bandwidth,
                       gpu::launch_seconds);
}

std::size_t workspace(const Task&) { return 0; }

std::unique_ptr<const Prepared> prepare(const Task& task) {
  std::unique_ptr<const Prepared> result;
  with_tiles(task.problem, [&]<TileConfig tiles>() {
    const gpu::PlannedSplits planned(
        task.problem, {.rows = tiles.rows(), .splits = 1, .chunk_step = tiles.keys}, 0);
    result = prepared([task, planned](const semantics::Call& call, const Launch& where_to) {
      launch<tiles>(planned.parameters(call, where_to, planned.splits), gpu::where(task, where_to));
    });
  });
  return result;
}

}  // namespace
}  // namespace cuda::flash_wgmma_f32

const Kernel cuda_flash_wgmma_f32 = {
    .name = "cuda.flash_wgmma_f32",
    .summary = "Hopper: f32 in three products of TF32, by whole warpgroups",
    .backend = Backend::cuda,
    .by_name_only = false,
    .supports = cuda::flash_wgmma_f32::supports,
    .configs = one_empty_config,
    .estimate = cuda::flash_wgmma_f32::estimate,
    .workspace = cuda::flash_wgmma_f32::workspace,
    .prepare = cuda::flash_wgmma_f32::prepare,
};

}  // namespace rapt
