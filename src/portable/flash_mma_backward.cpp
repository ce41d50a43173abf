#include "src/portable/flash_mma_backward.hpp"

#include <algorithm>

#include "src/core/text.hpp"
#include "src/portable/backward.hpp"
#include "src/portable/common.hpp"

namespace rapt::gpu::flash_mma_backward {
namespace {

using semantics::divided_up;

constexpr Index most_dim = 256, most_length = 1000000000;
// Of f32. What three products leave out of a single one shows where nothing is summed.
constexpr Index least_dim = 8;

MmaKind mma_kind_of(const Problem& p) {
  return p.dtype == DType::f32 ? MmaKind::tf32x3 : MmaKind::b16;
}
TileConfig tiles_of(const Problem& p) {
  return tiles_for(mma_kind_of(p), static_cast<int>(std::max(p.qk_dim, p.v_dim)),
                   gpu::has_score_mod(p) || p.dropout > 0);
}

double query_blocks(const Problem& p) {
  return double(divided_up(p.q_len, tiles_of(p).own())) * double(p.heads) * double(p.batch);
}
double key_blocks(const Problem& p) {
  return double(divided_up(p.kv_len, tiles_of(p).own())) * double(p.kv_heads) * double(p.batch);
}

}  // namespace

Support supports(const Problem& p, const Device& device) {
  if (std::max(p.qk_dim, p.v_dim) > most_dim) return gpu::refuse_dim(p, most_dim);
  if (p.dtype == DType::f32 && std::min(p.qk_dim, p.v_dim) < least_dim)
    return Support::no(text("it takes f32 with head dims of ", least_dim,
                            " or more; this problem has ", std::min(p.qk_dim, p.v_dim)));
  if (p.out_dtype != p.dtype)
    return Support::no(
        "out and dout are f32, and it multiplies 16-bit elements only; flash_backward does");
  if (const Support fit = gpu::lengths_fit(p, most_length); !fit) return fit;
  const double rows = double(p.batch) * double(p.q_len) * double(p.heads);
  return gpu::blocks_fit(
      std::max({query_blocks(p), key_blocks(p), BiasParts(p, device).blocks, rows}), device);
}

// Seven products of whole tiles, or eight, counted as if all were made by the blocks of queries.
Estimate estimate(const Task& task) {
  const Problem& p = task.problem;
  const TileConfig tiles = tiles_of(p);
  const Reach& chip = gpu::reach_of(task.device);
  const double multiplications = std::max(1.0, 3.0 * double(p.qk_dim) + 2.0 * double(p.v_dim));
  const double rows = std::max(1.0, double(p.total_q) * double(p.heads));
  const double products = tiles.apart ? 8 : 7;
  return WaveModel(
             task.device,
             tiles.mma_kind == MmaKind::b16 ? chip.mma_backward_b16 : chip.mma_backward_tf32x3,
             {.blocks = std::max(query_blocks(p) * gpu::filled_tiles(p), 1.0),
              .resident = tiles.blocks,
              .keys = p.flops() / (2 * multiplications * rows),
              .most_keys = double(p.kv_len),
              .uneven = gpu::is_uneven(p),
              .step_keys = double(tiles.streamed),
              .step_flops = 2 * products * tiles.dim * tiles.own() * tiles.streamed,
              .flops_per_second = task.device.nominal.matrix_flops,
              .bytes = 2 * p.bytes(),
              .launches = 3,
              .dim = tiles.dim,
              .score_mod = gpu::has_score_mod(p) || p.dropout > 0})
      .whole();
}

std::size_t workspace(const Task& task) {
  return BackwardRows(task.problem, BiasParts(task).bytes()).bytes();
}

std::unique_ptr<const Prepared> prepare(LaunchTiles launch_tiles, const Task& task) {
  const BiasParts parts(task);
  const BackwardRows rows(task.problem, parts.bytes());
  const TileConfig tiles = tiles_of(task.problem);
  return prepared([launch_tiles, task, tiles, parts, rows](const semantics::Call& call,
                                                           const semantics::Gradients& gradients,
                                                           const Launch& launch) {
    launch_tiles(tiles,
                 {.common = rows.parameters(task.problem, call, gradients, launch),
                  .bias_parts = reinterpret_cast<float*>(launch.workspace.data()),
                  .bias_slices = parts.slices},
                 where(task, launch));
  });
}

}  // namespace rapt::gpu::flash_mma_backward
