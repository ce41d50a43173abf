#include "src/portable/flash_mma.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "src/core/text.hpp"
#include "src/portable/common.hpp"
#include "src/portable/key_splits.hpp"

namespace rapt::gpu::flash_mma {
namespace {

constexpr Index most_dim = 256, most_length = 1000000000, most_splits = 256;
// Of f32. What three products leave out of a single one shows where nothing is summed.
constexpr Index least_dim = 8;

MmaKind mma_kind_of(const Problem& p) {
  if (p.dtype != DType::f32) return MmaKind::b16;
  return p.tf32 ? MmaKind::tf32 : MmaKind::tf32x3;
}

// All tiles that the head dims fit into, as configs name them: by their rows. Function takes them
// as template arguments, and says whether it has found what it wanted.
template <MmaKind mma_kind, class Function>
void try_tiles_of(const Problem& p, Function function) {
  constexpr MmaKind for_decode = mma_kind == MmaKind::tf32 ? MmaKind::tf32x3 : mma_kind;
  const Index dim = std::max(p.qk_dim, p.v_dim);
  bool done = false;
  gpu::with_one_of<32, 64, 128, 256>(dim, [&]<int bucket>() {
    done = gpu::is_general(p)
               ? function.template operator()<prefill_tiles(mma_kind, bucket, true)>()
               : function.template operator()<prefill_tiles(mma_kind, bucket, false)>();
  });
  if (done || p.batch_invariant) return;
  if (dim <= most_short_dim) {
    gpu::with_one_of<64, 128>(dim, [&]<int bucket>() {
      done = function.template operator()<short_tiles(for_decode, bucket)>();
    });
  }
  if (done || dim > most_decode_dim(mma_kind)) return;
  gpu::with_one_of<64, 128, most_decode_dim(for_decode)>(
      dim, [&]<int bucket>() { function.template operator()<decode_tiles(for_decode, bucket)>(); });
}
template <class Function>
void try_tiles(const Problem& p, Function function) {
  switch (mma_kind_of(p)) {
    case MmaKind::tf32x3: return try_tiles_of<MmaKind::tf32x3>(p, function);
    case MmaKind::tf32: return try_tiles_of<MmaKind::tf32>(p, function);
    case MmaKind::b16: return try_tiles_of<MmaKind::b16>(p, function);
  }
}

// The tiles with so many rows.
template <class Function>
void with_tiles(const Problem& p, Index rows, Function function) {
  try_tiles(p, [&]<TileConfig tiles>() {
    if (tiles.rows() != rows) return false;
    function.template operator()<tiles>();
    return true;
  });
}

}  // namespace

Support supports(const Problem& p, const Device& device) {
  if (std::max(p.qk_dim, p.v_dim) > most_dim) return gpu::refuse_dim(p, most_dim);
  if (mma_kind_of(p) == MmaKind::tf32x3 && std::min(p.qk_dim, p.v_dim) < least_dim)
    return Support::no(text("it takes f32 with head dims of ", least_dim,
                            " or more; this problem has ", std::min(p.qk_dim, p.v_dim)));
  if (const Support fit = gpu::lengths_fit(p, most_length); !fit) return fit;
  Index least_rows = 0;
  try_tiles(p, [&]<TileConfig tiles>() {
    least_rows = tiles.rows();
    return false;
  });
  if (const Support fit = gpu::rows_fit(p, device); !fit) return fit;
  return gpu::splits_fit(p, device, {.rows = least_rows, .splits = 2});
}

namespace {

// What products reach of the tensor cores' rate for f16, per flop of the problem, when enough
// blocks share a multiprocessor.
double efficiency(const TileConfig& tiles) {
  const auto of_dim = [&](double d32, double d64, double d128, double d256) {
    return tiles.dim <= 32 ? d32 : tiles.dim <= 64 ? d64 : tiles.dim <= 128 ? d128 : d256;
  };
  const double warps = tiles.key_warps == 1 ? 1.0 : tiles.key_warps == 2 ? 0.85 : 0.55;
  switch (tiles.mma_kind) {
    case MmaKind::tf32x3: return warps * of_dim(0.0584, 0.066, 0.0628, 0.0444);
    case MmaKind::tf32: return warps * of_dim(0.0941, 0.132, 0.1147, 0.0866);
    default: return warps * of_dim(0.1407, 0.26, 0.265, 0.202);
  }
}

// About what a block takes: for a tile of keys with nobody else at work, more where it must look up
// pages, and before and after all tiles; and what combining takes before it has read anything.
constexpr double tile_seconds = 1.9e-6, paged_tile_seconds = 3.5e-6;
constexpr double block_seconds = 3e-6, combine_seconds = 2e-6;
// Of the multiprocessor's rate, by a block that has it for itself.
constexpr double alone = 0.65;
constexpr int most_blocks_at_once = 8;  // on a multiprocessor, of any tiles
// What a score mod adds to a tile's arithmetic.
constexpr double score_mod_slowdown = 2;

// Multiprocessors take blocks in waves. A wave lasts as long as the memory or the arithmetic of all
// its blocks, but no less than the tiles of one. What does not depend on the splits is worked out
// once.
class Waves {
 public:
  Waves(const Problem& p, const Device& device, const TileConfig& tiles)
      : tiles_(tiles),
        uneven_(p.window.left || p.window.right || p.varlen || p.lengths),
        multiprocessors_(std::max(device.multiprocessors, 1)),
        rows_(double(std::max<Index>(p.total_q, 1)) * double(p.heads)),
        most_keys_(double(gpu::expected_keys(p))),
        v_dim_(double(p.v_dim)),
        latency_(p.paged() ? paged_tile_seconds : tile_seconds),
        read_bandwidth_(std::max(device.nominal.read_bandwidth, 1.0)) {
    const double row_tiles = double(std::max<Index>(gpu::tiles_of_rows(p, tiles.rows()), 1));
    const double dims = double(std::max<Index>(p.qk_dim + p.v_dim, 1));
    // Keys that a tile of rows sees: on the diagonal, more than a row does.
    const double group = double(p.heads) / double(p.kv_heads);
    const double diagonal = std::min(double(p.q_len), double(tiles.rows()) / group) / 2;
    keys_ = std::min(most_keys_, p.flops() / (2.0 * dims * rows_) + (uneven_ ? diagonal : 0.0));
    const double filled =
        p.varlen ? double(p.total_q) / std::max(1.0, double(p.q_len * p.batch)) : 1;
    row_blocks_ = double(p.batch) * double(p.kv_heads) * std::max(1.0, row_tiles * filled);

    // Of one tile on one multiprocessor. The row tiles of a kv head share what is read from memory.
    const double share = 1.0 / multiprocessors_;
    const double bytes = double(tiles.keys) * dims * double(size_in_bytes(p.dtype));
    const double bandwidth = 0.78 * share * read_bandwidth_;
    compute_ = 4.0 * tiles.dim * tiles.keys * tiles.rows() *
               (gpu::has_score_mod(p) ? score_mod_slowdown : 1.0) /
               (efficiency(tiles) * share * std::max(device.nominal.matrix_flops, 1.0));
    memory_ = std::max(bytes / row_tiles, bytes / 1.5) / bandwidth;
    for (int resident = 1; resident <= tiles.blocks; ++resident) steps_[resident] = step(resident);
  }

  Estimate with(Index splits) const {
    const double chunk = chunk_of(keys_, splits), chunks = chunk > 0 ? std::ceil(keys_ / chunk) : 1;
    const double steps = std::ceil(chunk / tiles_.keys);
    const auto wave = [&](double resident) {
      return resident > 0 ? block_seconds + steps * steps_[static_cast<int>(resident)] : 0;
    };
    const double blocks_each = row_blocks_ * chunks / multiprocessors_;
    const double waves = blocks_each / tiles_.blocks;
    double seconds = gpu::launch_seconds;
    if (uneven_) {
      const double most_steps = std::ceil(chunk_of(most_keys_, splits) / tiles_.keys);
      seconds += std::max(waves * wave(tiles_.blocks), block_seconds + most_steps * steps_[1]);
    } else {
      seconds += std::floor(waves) * wave(tiles_.blocks) +
                 wave(std::ceil(blocks_each - std::floor(waves) * tiles_.blocks));
    }
    if (chunks > 1) {
      const double partial_bytes = 4.0 * rows_ * chunks * (v_dim_ + 2);
      seconds +=
          gpu::launch_seconds + combine_seconds + 2 * partial_bytes / (0.35 * read_bandwidth_);
    }
    const bool idle = blocks_each * steps * std::max(compute_, memory_) < seconds / 2;
    return {seconds, idle ? "overhead" : compute_ > memory_ ? "compute" : "memory"};
  }

 private:
  double chunk_of(double all, Index splits) const {
    const double least = std::max<double>(tiles_.keys, gpu::split_kv_least_keys);
    return std::min(all, std::max(least, all / double(splits)));
  }

  // Waiting for memory and its bandwidth hide each other, but not altogether.
  double step(double resident) const {
    const double reading = resident * memory_;
    return std::max({compute_ / alone, resident * compute_,
                     std::cbrt(latency_ * latency_ * latency_ + reading * reading * reading)});
  }

  TileConfig tiles_;
  bool uneven_;
  double multiprocessors_, rows_, most_keys_, v_dim_, latency_, read_bandwidth_;
  double keys_, row_blocks_, compute_, memory_;
  double steps_[most_blocks_at_once + 1];  // of so many blocks on a multiprocessor
};

Config config_of(Index rows, Index splits) { return {{{"rows", rows}, {"splits", splits}}}; }

// Blocks of each multiprocessor that a launch may have, so that splitting further is worth a look.
constexpr Index blocks_in_turn = 4;

// Partial results of as many blocks as are launched at most. Tiles of few rows have more blocks at
// once, and the product of the two is `most_rows_at_once` at most.
Index room_for(const Problem& p, const Device& device, Index splits) {
  constexpr Index blocks_of_few_rows = 4, most_rows_at_once = 256;
  const Index rows_of_head = p.q_len * (p.heads / p.kv_heads);
  const Index rows = std::min(most_rows_at_once, blocks_of_few_rows * rows_of_head);
  return gpu::room_for_partials(p, splits,
                                blocks_in_turn * std::max<Index>(device.multiprocessors, 1) * rows);
}

// Splits worth a look: all up to 16, then eight from each power of two on.
Index after(Index splits) {
  const auto power = static_cast<Index>(std::bit_floor(static_cast<std::uint64_t>(splits)));
  return splits + std::max<Index>(1, power / 8);
}

}  // namespace

std::vector<Config> configs(const Problem& p, const Device& device) {
  struct Choice {
    Index rows, splits;
  } best = {};
  double least = 0;
  std::vector<Choice> others;
  try_tiles(p, [&]<TileConfig tiles>() {
    const Index blocks =
        std::max<Index>(p.batch * p.kv_heads * gpu::tiles_of_rows(p, tiles.rows()), 1);
    const Index wanted =
        blocks_in_turn * tiles.blocks * std::max(device.multiprocessors, 1) / blocks;
    Index most =
        p.batch_invariant ? 1 : gpu::most_chunks(p, std::clamp<Index>(wanted, 2, most_splits));
    if (p.bounded()) most = std::min(most, gpu::splits_in_room(p, room_for(p, device, most)));
    const Waves waves(p, device, tiles);
    for (Index splits = 1; splits <= most; splits = after(splits)) {
      const double seconds = waves.with(splits).seconds;
      if ((splits & (splits - 1)) == 0) others.push_back({tiles.rows(), splits});
      if (least > 0 && seconds >= least) continue;
      best = {tiles.rows(), splits};
      least = seconds;
    }
    return false;
  });
  std::vector<Config> result = {config_of(best.rows, best.splits)};
  for (const Choice& other : others) {
    if (other.rows != best.rows || other.splits != best.splits)
      result.push_back(config_of(other.rows, other.splits));
  }
  return result;
}

Estimate estimate(const Task& task) {
  Estimate result = {};
  with_tiles(task.problem, task.config.at("rows"), [&]<TileConfig tiles>() {
    result = Waves(task.problem, task.device, tiles).with(task.config.at("splits"));
  });
  return result;
}

std::size_t workspace(const Task& task) {
  return gpu::bytes_of_partials(task.problem,
                                room_for(task.problem, task.device, task.config.at("splits")));
}

std::unique_ptr<const Prepared> prepare(LaunchTiles launch_tiles, const Task& task) {
  std::unique_ptr<const Prepared> result;
  const Index splits = task.config.at("splits");
  with_tiles(task.problem, task.config.at("rows"), [&]<TileConfig tiles>() {
    static_assert(is_compiled(tiles));
    const gpu::PlannedSplits planned(
        task.problem, {.rows = tiles.rows(), .splits = splits, .chunk_step = tiles.keys},
        room_for(task.problem, task.device, splits));
    const Index at_once = Index{tiles.blocks} * std::max(task.device.multiprocessors, 1);
    result = prepared([launch_tiles, task, planned, at_once](const semantics::Call& call,
                                                             const Launch& where_to) {
      const auto seconds = [&](const Problem& run, Index count) {
        return Waves(run, task.device, tiles).with(count).seconds;
      };
      const Parameters parameters = planned.parameters(
          call, where_to, gpu::splits_of_run(planned, task.problem, call, at_once, seconds));
      launch_tiles(tiles, parameters, gpu::where(task, where_to));
    });
  });
  return result;
}

}  // namespace rapt::gpu::flash_mma
