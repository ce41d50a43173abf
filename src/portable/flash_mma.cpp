#include "src/portable/flash_mma.hpp"

#include <algorithm>
#include <array>

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

// The tiles that a problem can have, as configs name them: by their rows, of which no two have as
// many.
struct Choices {
  std::array<TileConfig, 3> all = {};
  std::size_t count = 0;

  explicit Choices(const Problem& p) {
    const MmaKind kind = mma_kind_of(p);
    const MmaKind for_few = kind == MmaKind::tf32 ? MmaKind::tf32x3 : kind;
    const auto dim = static_cast<int>(std::max(p.qk_dim, p.v_dim));
    all[count++] = prefill_tiles(kind, dim, is_general(p));
    if (p.batch_invariant) return;
    if (dim <= most_short_dim) all[count++] = short_tiles(for_few, dim);
    if (dim <= most_decode_dim(kind)) all[count++] = decode_tiles(for_few, dim);
  }

  auto begin() const { return all.begin(); }
  auto end() const { return all.begin() + count; }
  const TileConfig& with_rows(Index rows) const {
    return *std::ranges::find(*this, rows, [](const TileConfig& tiles) { return tiles.rows(); });
  }
};

static_assert(
    [] {
      for (const MmaKind kind : {MmaKind::tf32x3, MmaKind::tf32, MmaKind::b16}) {
        for (const int dim : {32, 64, 128, 256}) {
          for (const bool score_mod : {false, true})
            if (!is_compiled(prefill_tiles(kind, dim, score_mod))) return false;
          if (kind == MmaKind::tf32) continue;
          if (dim <= most_short_dim && !is_compiled(short_tiles(kind, dim))) return false;
          if (dim <= most_decode_dim(kind) && !is_compiled(decode_tiles(kind, dim))) return false;
        }
      }
      return true;
    }(),
    "every choice is compiled");

}  // namespace

Support supports(const Problem& p, const Device& device) {
  if (std::max(p.qk_dim, p.v_dim) > most_dim) return gpu::refuse_dim(p, most_dim);
  if (mma_kind_of(p) == MmaKind::tf32x3 && std::min(p.qk_dim, p.v_dim) < least_dim)
    return Support::no(text("it takes f32 with head dims of ", least_dim,
                            " or more; this problem has ", std::min(p.qk_dim, p.v_dim)));
  if (const Support fit = gpu::lengths_fit(p, most_length); !fit) return fit;
  if (const Support fit = gpu::rows_fit(p, device); !fit) return fit;
  const Choices choices(p);
  const Index least_rows = choices.all[choices.count - 1].rows();
  return gpu::splits_fit(p, device, {.rows = least_rows, .splits = 2});
}

namespace {

const KernelReach& reach_of(const TileConfig& tiles, const Reach& chip) {
  switch (tiles.mma_kind) {
    case MmaKind::tf32x3: return chip.mma_tf32x3;
    case MmaKind::tf32: return chip.mma_tf32;
    default: return chip.mma_b16;
  }
}

// A step is a tile of keys.
WaveModel model_of(const Problem& p, const Device& device, const TileConfig& tiles) {
  const Reach& chip = gpu::reach_of(device);
  const double row_tiles = double(std::max<Index>(tiles_of_rows(p, tiles.rows()), 1));
  const double keys = average_keys(p, double(tiles.rows() * p.kv_heads) / double(p.heads));
  // Tiles of rows that share a kv head find some of its keys in the cache.
  const double kv_bytes =
      double(p.batch * p.kv_heads) * keys * double((p.qk_dim + p.v_dim) * size_in_bytes(p.dtype));
  return {device,
          reach_of(tiles, chip),
          {.blocks = double(p.batch * p.kv_heads) * std::max(1.0, row_tiles * filled_tiles(p)),
           .resident = tiles.blocks,
           .keys = keys,
           .most_keys = double(expected_keys(p)),
           .uneven = is_uneven(p),
           .step_keys = double(tiles.keys),
           .step_flops = 4.0 * tiles.dim * tiles.keys * tiles.rows(),
           .flops_per_second = device.nominal.matrix_flops,
           .bytes = kv_bytes * std::max(1.0, row_tiles * chip.mma_read_again),
           .dim = tiles.dim,
           .rate = tiles.key_warps == 1   ? 1.0
                   : tiles.key_warps == 2 ? chip.mma_short_rate
                                          : chip.mma_decode_rate,
           .latency = tiles.key_warps == 1 ? chip.mma_load_ahead : 1.0,
           .score_mod = has_score_mod(p) || p.dropout > 0,
           .paged = p.paged(),
           .least_chunk = std::max<double>(tiles.keys, split_kv_least_keys),
           .partial_bytes = bytes_of_chunk(p),
           .combined_at_once = double(lane_groups_of(p) * split_kv_combined_at_once)}};
}

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

}  // namespace

std::vector<Config> configs(const Problem& p, const Device& device) {
  struct Choice {
    Index rows, splits;
  } best = {};
  double least = 0;
  std::vector<Choice> others;
  for (const TileConfig& tiles : Choices(p)) {
    const Index blocks =
        std::max<Index>(p.batch * p.kv_heads * gpu::tiles_of_rows(p, tiles.rows()), 1);
    const Index wanted =
        blocks_in_turn * tiles.blocks * std::max(device.multiprocessors, 1) / blocks;
    Index most =
        p.batch_invariant ? 1 : gpu::most_chunks(p, std::clamp<Index>(wanted, 2, most_splits));
    if (p.bounded()) most = std::min(most, gpu::splits_in_room(p, room_for(p, device, most)));
    for (Index splits = 1; splits <= most; splits *= 2) others.push_back({tiles.rows(), splits});
    const BestSplits of_tiles = gpu::best_splits(model_of(p, device, tiles), most);
    if (least > 0 && of_tiles.seconds >= least) continue;
    best = {tiles.rows(), of_tiles.splits};
    least = of_tiles.seconds;
  }
  std::vector<Config> result = {config_of(best.rows, best.splits)};
  for (const Choice& other : others) {
    if (other.rows != best.rows || other.splits != best.splits)
      result.push_back(config_of(other.rows, other.splits));
  }
  return result;
}

Estimate estimate(const Task& task) {
  const Choices choices(task.problem);
  return model_of(task.problem, task.device, choices.with_rows(task.config.at("rows")))
      .with(double(task.config.at("splits")));
}

std::size_t workspace(const Task& task) {
  return gpu::bytes_of_partials(task.problem,
                                room_for(task.problem, task.device, task.config.at("splits")));
}

std::unique_ptr<const Prepared> prepare(LaunchTiles launch_tiles, const Task& task) {
  const Index splits = task.config.at("splits");
  const TileConfig tiles = Choices(task.problem).with_rows(task.config.at("rows"));
  const PlannedSplits planned(task.problem,
                              {.rows = tiles.rows(), .splits = splits, .chunk_step = tiles.keys},
                              room_for(task.problem, task.device, splits));
  const Index at_once = Index{tiles.blocks} * std::max(task.device.multiprocessors, 1);
  return prepared([launch_tiles, task, tiles, planned, at_once](const semantics::Call& call,
                                                                const Launch& where_to) {
    const auto model = [&](const Problem& run) { return model_of(run, task.device, tiles); };
    const Parameters parameters = planned.parameters(
        call, where_to, splits_of_run(planned, task.problem, call, at_once, model));
    launch_tiles(tiles, parameters, where(task, where_to));
  });
}

}  // namespace rapt::gpu::flash_mma
