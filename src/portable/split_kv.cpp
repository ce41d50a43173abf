#include "src/gpu/split_kv.hpp"

#include <algorithm>
#include <cmath>

#include "src/portable/common.hpp"
#include "src/portable/key_splits.hpp"
#include "src/portable/portable_kernels.hpp"

namespace rapt::gpu {
namespace {

using semantics::divided_up;

constexpr Index most_dim = 256, most_splits = 512;
constexpr Index blocks_in_turn = 16;  // for each one that runs at once, at most

// About what a block takes: for a round of keys with nobody else at work, and before and after all
// rounds; and for one round of combining.
constexpr double round_seconds = 1.2e-6, block_seconds = 1.5e-6, combine_seconds = 2.5e-6;

bool is_plain(const Problem& p) {
  return p.alignment == access_bytes && p.qk_dim % split_kv_elements == 0 &&
         p.v_dim % split_kv_elements == 0 && !is_general(p);
}

// How a problem is cut, but for the splits.
struct Cut {
  bool plain;
  Index rows, tiles;
  Index blocks;         // of one split
  Index resident;       // blocks that run at once on a multiprocessor
  Index slices, steps;  // of a block

  explicit Cut(const Problem& p) : plain(is_plain(p)), rows(split_kv_general_rows) {
    // By its strides, a sequence alone may be plain where its batch is not.
    if (plain && !p.batch_invariant)
      with_one_of<1, 4, 8>(tiles_of_rows(p, 1), [&]<int choice>() { rows = choice; });
    tiles = tiles_of_rows(p, rows);
    blocks = p.batch * p.kv_heads * tiles;
    resident = split_kv_blocks(static_cast<int>(rows));
    with_one_of<8, 16, 32>(divided_up(std::max(p.qk_dim, p.v_dim), split_kv_elements),
                           [&]<int lanes>() { slices = split_kv_threads / lanes; });
    steps = split_kv_steps(static_cast<int>(size_in_bytes(p.dtype)));
  }

  // The same for a batch with less in it.
  Cut of(const Problem& run) const {
    Cut result = *this;
    result.tiles = tiles_of_rows(run, rows);
    result.blocks = run.batch * run.kv_heads * result.tiles;
    return result;
  }
};

// Partial results of as many blocks as are launched at most, of any tile of rows.
Index filling(const Device& device) {
  constexpr Index most_rows_at_once = 16;  // resident blocks times their rows, of any config
  return blocks_in_turn * std::max<Index>(device.multiprocessors, 1) * most_rows_at_once;
}

Index room_for(const Problem& p, const Device& device, Index splits) {
  return room_for_partials(p, splits, filling(device));
}

// Multiprocessors take blocks in waves. A wave lasts as long as the memory or the arithmetic of all
// its blocks, but no less than the rounds of one. Making a plan asks this of every number of
// splits: whole numbers are doubles here, which divide faster.
class Waves {
 public:
  Waves(const Problem& p, const Cut& cut, const Device& device)
      : keys_(double(expected_keys(p))),
        multiprocessors_(std::max(device.multiprocessors, 1)),
        keys_of_round_(double(cut.slices * cut.steps)),
        blocks_(double(cut.blocks)),
        resident_(double(cut.resident)),
        combined_at_once_(double(cut.slices * split_kv_combined_at_once)) {
    // Of one key on one multiprocessor; the tiles of a kv head share what is read.
    const Index dims = p.qk_dim + p.v_dim;
    const double share = 1.0 / multiprocessors_;
    key_ =
        estimate_from(2.0 * double(dims * cut.rows), 0.4 * share * device.nominal.f32_flops,
                      double(dims * size_in_bytes(p.dtype)) / double(std::max<Index>(cut.tiles, 1)),
                      0.88 * share * device.nominal.read_bandwidth, 0);
    const double partial_bytes = 4.0 * double(p.total_q * p.heads * (p.v_dim + 2));
    chunk_of_partials_ =
        estimate_from(0, 0, 2 * partial_bytes, device.nominal.read_bandwidth, 0).seconds;
  }

  Estimate with(Index splits) const {
    const double chunk =
        std::min(keys_, std::max<double>(split_kv_least_keys, std::ceil(keys_ / double(splits))));
    const double chunks = chunk > 0 ? std::ceil(keys_ / chunk) : 1;
    const double least = std::ceil(chunk / keys_of_round_) * round_seconds;
    const double blocks_each = std::ceil(blocks_ * chunks / multiprocessors_);
    const double work = chunk * key_.seconds;
    const auto wave = [&](double blocks) {
      return blocks > 0 ? block_seconds + std::max(least, blocks * work) : 0;
    };
    const double waves = std::floor(blocks_each / resident_);
    double seconds =
        launch_seconds + waves * wave(resident_) + wave(blocks_each - waves * resident_);
    if (chunks > 1) {
      seconds += launch_seconds + std::ceil(chunks / combined_at_once_) * combine_seconds +
                 chunks * chunk_of_partials_;
    }
    const bool idle = blocks_each * work < seconds / 2;
    return {seconds, idle ? "overhead" : key_.bound};
  }

 private:
  double keys_, multiprocessors_, keys_of_round_, blocks_, resident_, combined_at_once_;
  Estimate key_;
  double chunk_of_partials_;  // seconds to write and read those of one chunk
};

// All that are offered, best guess first.
std::vector<Index> splits_of(const Problem& p, const Device& device) {
  if (p.batch_invariant) return {splits_of_any_batch};
  const Cut cut(p);
  const Index in_turn = blocks_in_turn * cut.resident * std::max(device.multiprocessors, 1);
  Index most =
      most_chunks(p, std::clamp<Index>(in_turn / std::max<Index>(cut.blocks, 1), 2, most_splits));
  if (p.bounded()) most = std::min(most, splits_in_room(p, room_for(p, device, most)));
  const Waves waves(p, cut, device);
  Index best = 1;
  double least = waves.with(1).seconds;
  for (Index splits = 2; splits <= most; ++splits) {
    const double seconds = waves.with(splits).seconds;
    if (seconds >= least) continue;
    best = splits;
    least = seconds;
  }
  std::vector<Index> result = {best};
  for (Index splits = 1; splits <= most; splits *= 2)
    if (splits != best) result.push_back(splits);
  return result;
}

}  // namespace

Support SplitKvHost::supports(const Problem& p, const Device& device) {
  if (std::max(p.qk_dim, p.v_dim) > most_dim) return refuse_dim(p, most_dim);
  if (const Support fit = rows_fit(p, device); !fit) return fit;
  const Index splits = p.batch_invariant ? splits_of_any_batch : 2;
  return splits_fit(p, device, {.rows = Cut(p).rows, .splits = splits});
}

std::vector<Config> SplitKvHost::configs(const Problem& p, const Device& device) {
  std::vector<Config> result;
  for (const Index splits : splits_of(p, device)) result.push_back({{{"splits", splits}}});
  return result;
}

Estimate SplitKvHost::estimate(const Task& task) {
  return Waves(task.problem, Cut(task.problem), task.device).with(task.config.at("splits"));
}

std::size_t SplitKvHost::workspace(const Task& task) {
  return bytes_of_partials(task.problem,
                           room_for(task.problem, task.device, task.config.at("splits")));
}

std::unique_ptr<const Prepared> SplitKvHost::prepare(const Launches& launches, const Task& task) {
  const Problem& p = task.problem;
  const Cut cut(p);
  const Index splits = task.config.at("splits");
  PlannedSplits planned(p, {.rows = cut.rows, .splits = splits}, room_for(p, task.device, splits));
  planned.shared.plain = cut.plain;
  const Index at_once = cut.resident * std::max<Index>(task.device.multiprocessors, 1);
  return prepared(
      [&launches, task, planned, cut, at_once](const semantics::Call& call, const Launch& launch) {
        const auto seconds = [&](const Problem& run, Index count) {
          return Waves(run, cut.of(run), task.device).with(count).seconds;
        };
        const Index count = splits_of_run(planned, task.problem, call, at_once, seconds);
        launches.split_kv(planned.parameters(call, launch, count), where(task, launch));
      });
}

}  // namespace rapt::gpu
