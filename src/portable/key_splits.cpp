#include "src/portable/key_splits.hpp"

#include <algorithm>

#include "src/core/text.hpp"
#include "src/gpu/rows.hpp"
#include "src/portable/common.hpp"

namespace rapt::gpu {
namespace {

using semantics::divided_up;
using semantics::rounded_up;

Index rows_of(const Problem& p) { return (p.varlen ? p.total_q : p.batch * p.q_len) * p.heads; }

}  // namespace

Index tiles_of_rows(const Problem& p, Index rows) {
  return divided_up(p.q_len * (p.heads / p.kv_heads), rows);
}

Index expected_keys(const Problem& p) {
  const Index keys = std::min(p.kv_len, divided_up(p.total_kv, std::max<Index>(p.batch, 1)));
  if (!p.window.left || !p.window.right) return keys;
  return std::min(keys, *p.window.left + *p.window.right + p.q_len);
}

double average_keys(const Problem& p, double queries) {
  const auto most = double(expected_keys(p));
  if (!is_uneven(p)) return most;
  return std::min(most, keys_of_row(p) + std::min(double(p.q_len), queries) / 2);
}

namespace {

Index chunks_of(Index kv_len, Index splits) {
  return std::clamp<Index>(divided_up(kv_len, split_kv_least_keys), 1, splits);
}

}  // namespace

Index most_chunks(const Problem& p, Index splits) { return chunks_of(p.kv_len, splits); }

Index room_for_partials(const Problem& p, Index splits, Index filling) {
  if (p.bounded() && !p.batch_invariant) {
    const Index chunks = divided_up(p.kv_len, split_kv_least_keys);
    return chunks > 1 ? std::min(rows_of(p) * chunks, filling) : 0;
  }
  const Index chunks = most_chunks(p, splits);
  return chunks > 1 ? rows_of(p) * chunks : 0;
}

Index splits_in_room(const Problem& p, Index room) {
  return std::max<Index>(1, room / std::max<Index>(rows_of(p), 1));
}

std::size_t bytes_of_partials(const Problem& p, Index room) {
  constexpr Index state_bytes = 8;
  return static_cast<std::size_t>(room * (rounded_up(p.v_dim, 4) * 4 + state_bytes));
}

double bytes_of_chunk(const Problem& p) {
  return 4.0 * double(p.total_q * p.heads) * double(p.v_dim + 2);
}

Index lane_groups_of(const Problem& p) {
  Index lane_groups = 1;
  with_one_of<8, 16, 32>(divided_up(std::max(p.qk_dim, p.v_dim), split_kv_elements),
                         [&]<int lanes>() { lane_groups = split_kv_threads / lanes; });
  return lane_groups;
}

// Making a plan waits for this: only around the best power of two is everything worth a look, in
// steps of an eighth of it.
BestSplits best_splits(const WaveModel& model, Index most) {
  BestSplits best = {1, model.with(1).seconds};
  const auto consider = [&](Index splits) {
    const double seconds = model.with(double(splits)).seconds;
    if (seconds < best.seconds) best = {splits, seconds};
  };
  for (Index splits = 2; splits <= most; splits *= 2) consider(splits);
  const Index power = best.splits;
  const auto consider_between = [&](Index below, Index above) {
    const Index step = std::max<Index>(below / 8, 1);
    for (Index splits = below + step; splits < above; splits += step) consider(splits);
  };
  consider_between(power / 2, power);
  consider_between(power, std::min(2 * power, most + 1));
  return best;
}

Support rows_fit(const Problem& p, const Device& device) {
  if (p.kv_len > split_kv_most_keys)
    return Support::no(
        text("it takes up to ", split_kv_most_keys, " keys; this problem has ", p.kv_len));
  // Rows are numbered by ints, those of an empty batch too.
  const auto sequences = double(std::max<Index>(p.batch, 1));
  const double queries = std::max({1.0, sequences * double(p.q_len), double(p.total_q)});
  return blocks_fit(queries * double(p.heads), device);
}

Support splits_fit(const Problem& p, const Device& device, const KeySplits& cut) {
  return blocks_fit(
      double(p.batch) * double(p.kv_heads) * double(tiles_of_rows(p, cut.rows) * cut.splits),
      device);
}

namespace {

// What follows from the lengths of the call.
void set_sizes(SplitKvParameters& parameters, Index splits) {
  const semantics::Call& call = parameters.call;
  const Index tiles = divided_up(call.q_len * parameters.group.value, parameters.rows.value);
  parameters.q_len = divisor(std::max<Index>(call.q_len, 1));
  parameters.tiles = divisor(std::max<Index>(tiles, 1));
  parameters.chunks = divisor(chunks_of(call.kv_len, splits));
  parameters.splits = divisor(splits);
}

}  // namespace

PlannedSplits::PlannedSplits(const Problem& p, const KeySplits& cut, Index room_for_results)
    : shared{}, splits(cut.splits), room(room_for_results) {
  shared.dtype = p.dtype;
  shared.aligned = p.alignment == access_bytes;
  shared.heads = divisor(p.heads);
  shared.kv_heads = divisor(p.kv_heads);
  shared.group = divisor(p.heads / p.kv_heads);
  shared.page = divisor(std::clamp<Index>(p.page_size, 1, split_kv_most_keys));
  shared.rows = divisor(cut.rows);
  shared.chunk_step = divisor(cut.chunk_step);
  shared.out_stride = rounded_up(p.v_dim, 4);
  shared.call.q_len = p.varlen ? std::min(p.q_len, p.total_q) : p.q_len;
  shared.call.kv_len = p.kv_len;
  set_sizes(shared, cut.splits);
}

SplitKvParameters PlannedSplits::parameters(const semantics::Call& call, const Launch& launch,
                                            Index splits_of_run) const {
  SplitKvParameters result = shared;
  std::byte* memory = launch.workspace.data();
  result.call = call;
  if (call.q_len != shared.call.q_len || call.kv_len != shared.call.kv_len ||
      splits_of_run != splits)
    set_sizes(result, splits_of_run);
  result.partial_out = reinterpret_cast<float*>(memory);
  result.partial_states =
      reinterpret_cast<Vector<float, 2>*>(memory + room * shared.out_stride * 4);
  return result;
}

}  // namespace rapt::gpu
