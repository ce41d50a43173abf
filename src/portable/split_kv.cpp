#include "src/gpu/split_kv.hpp"

#include <algorithm>

#include "src/core/call.hpp"
#include "src/core/text.hpp"
#include "src/portable/common.hpp"
#include "src/portable/portable_kernels.hpp"

namespace rapt::gpu {
namespace {

using semantics::divided_up;
using semantics::rounded_up;

constexpr Index most_dim = 256, most_splits = 512;
constexpr Index splits_of_any_batch = 32;  // where bits must not depend on the batch
constexpr Index blocks_in_turn = 16;       // for each one that runs at once, at most

// About what a block takes: for a round of keys with nobody else at work, and before and after all
// rounds; and for one round of combining.
constexpr double round_seconds = 1.2e-6, block_seconds = 1.5e-6, combine_seconds = 2.5e-6;

bool is_plain(const Problem& p) {
  return p.alignment == access_bytes && p.qk_dim % split_kv_elements == 0 &&
         p.v_dim % split_kv_elements == 0 && !p.bias.present() && !p.mask.present() && !p.alibi &&
         p.softcap == 0;
}

// How a problem is cut, but for the splits.
struct Cut {
  bool plain;
  Index group, rows, tiles;
  Index blocks;         // of one split
  Index resident;       // blocks that run at once on a multiprocessor
  Index slices, steps;  // of a block

  explicit Cut(const Problem& p)
      : plain(is_plain(p)), group(p.heads / p.kv_heads), rows(split_kv_general_rows) {
    // By its strides, a sequence alone may be plain where its batch is not.
    if (plain && !p.batch_invariant)
      with_one_of<1, 4, 8>(p.q_len * group, [&]<int choice>() { rows = choice; });
    tiles = divided_up(p.q_len * group, rows);
    blocks = p.batch * p.kv_heads * tiles;
    resident = split_kv_blocks(static_cast<int>(rows));
    with_one_of<8, 16, 32>(divided_up(std::max(p.qk_dim, p.v_dim), split_kv_elements),
                           [&]<int lanes>() { slices = split_kv_threads / lanes; });
    steps = split_kv_steps(static_cast<int>(size_in_bytes(p.dtype)));
  }
};

// Keys that a tile may be expected to see.
Index expected_keys(const Problem& p) {
  const Index keys = std::min(p.kv_len, divided_up(p.total_kv, std::max<Index>(p.batch, 1)));
  if (!p.window.left || !p.window.right) return keys;
  return std::min(keys, *p.window.left + *p.window.right + p.q_len);
}

// Chunks of a tile at most, whatever the lengths of sequences are.
Index most_chunks(const Problem& p, Index splits) {
  return std::clamp<Index>(divided_up(p.kv_len, split_kv_least_keys), 1, splits);
}

// Multiprocessors take blocks in waves. A wave lasts as long as the memory or the arithmetic of all
// its blocks, but no less than the rounds of one.
Estimate estimate_with(const Problem& p, const Device& device, Index splits) {
  const Cut cut(p);
  const Index keys = expected_keys(p), multiprocessors = std::max(device.threads, 1);
  const Index chunk =
      std::min(keys, std::max<Index>(split_kv_least_keys, divided_up(keys, splits)));
  const Index chunks = chunk > 0 ? divided_up(keys, chunk) : 1;
  const Index rounds = divided_up(chunk, cut.slices * cut.steps);
  const Index blocks_each = divided_up(cut.blocks * chunks, multiprocessors);

  // Of one chunk on one multiprocessor; the tiles of a kv head share what is read.
  const Index dims = p.qk_dim + p.v_dim;
  const double share = 1.0 / double(multiprocessors);
  const Estimate work = estimate_from(
      2.0 * double(chunk * dims * cut.rows), 0.4 * share * device.nominal.f32_flops,
      double(chunk * dims * size_in_bytes(p.dtype)) / double(std::max<Index>(cut.tiles, 1)),
      0.9 * share * device.nominal.read_bandwidth, 0);
  const auto wave = [&](Index blocks) {
    if (blocks == 0) return 0.0;
    return block_seconds + std::max(double(rounds) * round_seconds, double(blocks) * work.seconds);
  };
  double seconds = launch_seconds + double(blocks_each / cut.resident) * wave(cut.resident) +
                   wave(blocks_each % cut.resident);
  if (chunks > 1) {
    const Index combine_rounds = divided_up(chunks, cut.slices * split_kv_combined_at_once);
    const double partial_bytes = 4.0 * double(p.total_q * p.heads * chunks * (p.v_dim + 2));
    seconds += estimate_from(0, 0, 2 * partial_bytes, device.nominal.read_bandwidth,
                             launch_seconds + double(combine_rounds) * combine_seconds)
                   .seconds;
  }
  const bool idle = double(blocks_each) * work.seconds < seconds / 2;
  return {seconds, idle ? "overhead" : work.bound};
}

// All that are offered, best guess first.
std::vector<Index> splits_of(const Problem& p, const Device& device) {
  if (p.batch_invariant) return {splits_of_any_batch};
  const Cut cut(p);
  const Index in_turn = blocks_in_turn * cut.resident * std::max(device.threads, 1);
  const Index most =
      most_chunks(p, std::clamp<Index>(in_turn / std::max<Index>(cut.blocks, 1), 2, most_splits));
  Index best = 1;
  double least = estimate_with(p, device, 1).seconds;
  for (Index splits = 2; splits <= most; ++splits) {
    const double seconds = estimate_with(p, device, splits).seconds;
    if (seconds >= least) continue;
    best = splits;
    least = seconds;
  }
  std::vector<Index> result = {best};
  for (Index splits = 1; splits <= most; splits *= 2)
    if (splits != best) result.push_back(splits);
  return result;
}

struct Workspace {
  Index out_stride, out_bytes, bytes;

  Workspace(const Problem& p, Index splits) : out_stride(rounded_up(p.v_dim, 4)) {
    const Index chunks = most_chunks(p, splits);
    const Index rows = (p.varlen ? p.total_q : p.batch * p.q_len) * p.heads;
    const Index partials = chunks > 1 ? rows * chunks : 0;
    out_bytes = partials * out_stride * 4;
    bytes = out_bytes + partials * 8;
  }
};

}  // namespace

Support SplitKvHost::supports(const Problem& p, const Device& device) {
  if (std::max(p.qk_dim, p.v_dim) > most_dim) return refuse_dim(p, most_dim);
  if (p.kv_len > split_kv_most_keys) {
    return Support::no(
        text("it takes up to ", split_kv_most_keys, " keys; this problem has ", p.kv_len));
  }
  // Rows are numbered by ints, those of an empty batch too.
  const auto sequences = double(std::max<Index>(p.batch, 1));
  const double queries = std::max({1.0, sequences * double(p.q_len), double(p.total_q)});
  if (const Support fit = blocks_fit(queries * double(p.heads), device); !fit) return fit;
  return blocks_fit(double(Cut(p).blocks) * double(p.batch_invariant ? splits_of_any_batch : 2),
                    device);
}

std::vector<Config> SplitKvHost::configs(const Problem& p, const Device& device) {
  std::vector<Config> result;
  for (const Index splits : splits_of(p, device)) result.push_back({{{"splits", splits}}});
  return result;
}

Estimate SplitKvHost::estimate(const Task& task) {
  return estimate_with(task.problem, task.device, task.config.at("splits"));
}

std::size_t SplitKvHost::workspace(const Task& task) {
  return static_cast<std::size_t>(Workspace(task.problem, task.config.at("splits")).bytes);
}

void SplitKvHost::run(const Launches& launches, const Task& task, const Arguments& arguments,
                      const Launch& launch) {
  const Problem& p = task.problem;
  const Index splits = task.config.at("splits");
  const Cut cut(p);
  const Workspace workspace(p, splits);
  const semantics::Call call = make_call(p, arguments);
  std::byte* memory = launch.workspace.data();
  const SplitKvParameters parameters = {
      .call = call,
      .dtype = p.dtype,
      .aligned = p.alignment == access_bytes,
      .plain = cut.plain,
      .heads = divisor(p.heads),
      .kv_heads = divisor(p.kv_heads),
      .q_len = divisor(std::max<Index>(call.q_len, 1)),
      .group = divisor(cut.group),
      .page = divisor(std::clamp<Index>(p.page_size, 1, split_kv_most_keys)),
      .rows = divisor(cut.rows),
      .tiles = divisor(std::max<Index>(cut.tiles, 1)),
      .chunks = divisor(most_chunks(p, splits)),
      .splits = divisor(splits),
      .partial_out = reinterpret_cast<float*>(memory),
      .partial_states = reinterpret_cast<Vector<float, 2>*>(memory + workspace.out_bytes),
      .out_stride = workspace.out_stride,
  };
  launches.split_kv(parameters, where(task, launch));
}

}  // namespace rapt::gpu
