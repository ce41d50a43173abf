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

bool is_plain(const Problem& p) {
  return p.alignment == access_bytes && p.qk_dim % split_kv_elements == 0 &&
         p.v_dim % split_kv_elements == 0 && !is_general(p);
}

// How a problem is cut, but for the splits.
struct Cut {
  bool plain;
  Index rows, tiles;
  Index blocks;     // of one split
  Index resident;   // blocks that run at once on a multiprocessor
  Index step_keys;  // of a block

  explicit Cut(const Problem& p) : plain(is_plain(p)), rows(split_kv_general_rows) {
    // By its strides, a sequence alone may be plain where its batch is not.
    if (plain && !p.batch_invariant)
      with_one_of<1, 4, 8>(tiles_of_rows(p, 1), [&]<int choice>() { rows = choice; });
    tiles = tiles_of_rows(p, rows);
    blocks = p.batch * p.kv_heads * tiles;
    resident = split_kv_blocks(static_cast<int>(rows));
    step_keys = lane_groups_of(p) * split_kv_steps(static_cast<int>(size_in_bytes(p.dtype)));
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

// A step is a round of keys; the tiles of a kv head share what is read.
WaveModel model_of(const Problem& p, const Cut& cut, const Device& device) {
  const double dims = double(p.qk_dim + p.v_dim);
  const double keys = average_keys(p, double(cut.rows * p.kv_heads) / double(p.heads));
  return {device,
          reach_of(device).split_kv,
          {.blocks = double(cut.blocks),
           .resident = static_cast<int>(cut.resident),
           .keys = keys,
           .most_keys = double(expected_keys(p)),
           .uneven = is_uneven(p),
           .step_keys = double(cut.step_keys),
           .step_flops = 2 * dims * double(cut.step_keys * cut.rows),
           .flops_per_second = device.nominal.f32_flops,
           .bytes = double(p.batch * p.kv_heads) * keys * dims * double(size_in_bytes(p.dtype)),
           .paged = p.paged(),
           .least_chunk = split_kv_least_keys,
           .partial_bytes = bytes_of_chunk(p),
           .combined_at_once = double(lane_groups_of(p) * split_kv_combined_at_once)}};
}

// All that are offered, best guess first.
std::vector<Index> splits_of(const Problem& p, const Device& device) {
  if (p.batch_invariant) return {splits_of_any_batch};
  const Cut cut(p);
  const Index in_turn = blocks_in_turn * cut.resident * std::max(device.multiprocessors, 1);
  Index most =
      most_chunks(p, std::clamp<Index>(in_turn / std::max<Index>(cut.blocks, 1), 2, most_splits));
  if (p.bounded()) most = std::min(most, splits_in_room(p, room_for(p, device, most)));
  const Index best = best_splits(model_of(p, cut, device), most).splits;
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
  return model_of(task.problem, Cut(task.problem), task.device)
      .with(double(task.config.at("splits")));
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
  return prepared([&launches, task, planned, cut, at_once](const semantics::Call& call,
                                                           const Launch& launch) {
    const auto model = [&](const Problem& run) { return model_of(run, cut.of(run), task.device); };
    const Index count = splits_of_run(planned, task.problem, call, at_once, model);
    launches.split_kv(planned.parameters(call, launch, count), where(task, launch));
  });
}

}  // namespace rapt::gpu
