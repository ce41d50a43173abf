#include <algorithm>

#include "src/portable/common.hpp"
#include "src/portable/portable_kernels.hpp"
#include "src/portable/score_matrix.hpp"

namespace rapt::gpu {
namespace {

using semantics::divided_up;

constexpr Index most_keys = 1024;    // of a chunk
constexpr Index least_slice = 64;    // dims
constexpr double blocks_wanted = 2;  // a multiprocessor
constexpr Index slices_more = 16;    // than fill the chip, at most: each has scores of its own

double query_tiles(const Problem& p, Index rows) {
  return double(divided_up(p.q_len, rows)) * double(p.heads) * double(p.batch);
}

double out_blocks(const Problem& p, Index rows) {
  return query_tiles(p, rows) * double(divided_up(p.v_dim, out_tile_dims));
}

// So many that the scores' blocks fill the chip.
Index slices_for(const Problem& p, const Device& device, Index rows) {
  const double blocks =
      query_tiles(p, rows) * double(divided_up(std::min(p.kv_len, most_keys), rows));
  const double wanted = blocks_wanted * device.multiprocessors / std::max(blocks, 1.0);
  return std::clamp<Index>(static_cast<Index>(wanted), 1, divided_up(p.qk_dim, least_slice));
}

MatrixShape shape_of(const Task& task) {
  return {task.problem, most_keys, task.config.at("slices")};
}

TiledTiles tiles_of(const Task& task, const MatrixShape& shape) {
  const Problem& p = task.problem;
  const Index rows = task.config.at("tile");
  // Not where bits must not depend on the batch: it may have sequences with more keys.
  const bool few = rows == small_tiles.rows && !p.batch_invariant && p.kv_len <= few_keys &&
                   shape.slices <= few_slices && p.v_dim > 0;
  return {rows, few};
}

}  // namespace

Support FlashWideHost::supports(const Problem& p, const Device& device) {
  return matrix_fits(p, device, most_keys);
}

// A row's sums run over the slices, so with batch-invariant bits nothing but the head dim may
// decide on their number.
std::vector<Config> FlashWideHost::configs(const Problem& p, const Device& device) {
  const auto config = [](const TiledConfig& tiles, Index slices) {
    return Config{{{"tile", tiles.rows}, {"slices", slices}}};
  };
  const Index fixed = std::max<Index>(1, p.qk_dim / 1024);
  if (p.batch_invariant) return {config(large_tiles, fixed), config(small_tiles, fixed)};
  const auto filling = [&](const TiledConfig& tiles) {
    return config(tiles, slices_for(p, device, tiles.rows));
  };
  const bool large = p.q_len > 2 * small_tiles.rows &&
                     2 * out_blocks(p, large_tiles.rows) >= device.multiprocessors;
  std::vector<Config> all = {filling(large ? large_tiles : small_tiles),
                             filling(large ? small_tiles : large_tiles)};
  for (const TiledConfig& tiles : {large_tiles, small_tiles}) {
    const Index most = std::min(divided_up(p.qk_dim, least_slice),
                                slices_more * slices_for(p, device, tiles.rows));
    for (Index slices = 1; slices <= most; slices *= 4) {
      if (std::ranges::find(all, config(tiles, slices)) == all.end())
        all.push_back(config(tiles, slices));
    }
  }
  return all;
}

Estimate FlashWideHost::estimate(const Task& task) {
  const Problem& p = task.problem;
  const Index rows = task.config.at("tile");
  const Reach& reach = reach_of(task.device);
  const double dims = double(semantics::rounded_up(p.qk_dim, large_tiles.strip) +
                             semantics::rounded_up(p.v_dim, out_tile_dims));
  const double padding = double(semantics::rounded_up(p.q_len, rows)) /
                         double(std::max<Index>(p.q_len, 1)) * dims /
                         double(std::max<Index>(p.qk_dim + p.v_dim, 1));
  const double chunks = double(divided_up(std::max<Index>(p.kv_len, 1), most_keys));
  return estimate_with_scores(task,
                              rows == large_tiles.rows ? reach.flash_wide : reach.flash_wide_small,
                              p.flops() * padding, out_blocks(p, rows), 3 * chunks);
}

std::size_t FlashWideHost::workspace(const Task& task) { return shape_of(task).bytes; }

std::unique_ptr<const Prepared> FlashWideHost::prepare(const Launches& launches, const Task& task) {
  const MatrixShape shape = shape_of(task);
  const TiledTiles tiles = tiles_of(task, shape);
  return prepared(
      [&launches, task, shape, tiles](const semantics::Call& call, const Launch& launch) {
        launches.tiled(make_matrix(shape, task.problem, call, launch), tiles, where(task, launch));
      });
}

}  // namespace rapt::gpu
