#include "src/portable/key_splits.hpp"

#include <algorithm>

#include "src/core/call.hpp"
#include "src/core/text.hpp"
#include "src/gpu/rows.hpp"
#include "src/portable/common.hpp"

namespace rapt::gpu {
namespace {

using semantics::divided_up;
using semantics::rounded_up;

struct Partials {
  Index out_stride, out_bytes, bytes;

  Partials(const Problem& p, Index splits) : out_stride(rounded_up(p.v_dim, 4)) {
    const Index chunks = most_chunks(p, splits);
    const Index rows = (p.varlen ? p.total_q : p.batch * p.q_len) * p.heads;
    const Index partials = chunks > 1 ? rows * chunks : 0;
    out_bytes = partials * out_stride * 4;
    bytes = out_bytes + partials * 8;
  }
};

}  // namespace

Index tiles_of_rows(const Problem& p, Index rows) {
  return divided_up(p.q_len * (p.heads / p.kv_heads), rows);
}

Index expected_keys(const Problem& p) {
  const Index keys = std::min(p.kv_len, divided_up(p.total_kv, std::max<Index>(p.batch, 1)));
  if (!p.window.left || !p.window.right) return keys;
  return std::min(keys, *p.window.left + *p.window.right + p.q_len);
}

Index most_chunks(const Problem& p, Index splits) {
  return std::clamp<Index>(divided_up(p.kv_len, split_kv_least_keys), 1, splits);
}

std::size_t bytes_of_partials(const Problem& p, Index splits) {
  return static_cast<std::size_t>(Partials(p, splits).bytes);
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

SplitKvParameters split_kv_parameters(const Problem& p, const Arguments& arguments,
                                      const Launch& launch, const KeySplits& cut) {
  const Partials partials(p, cut.splits);
  const semantics::Call call = make_call(p, arguments);
  std::byte* memory = launch.workspace.data();
  return {
      .call = call,
      .dtype = p.dtype,
      .aligned = p.alignment == access_bytes,
      .plain = false,
      .heads = divisor(p.heads),
      .kv_heads = divisor(p.kv_heads),
      .q_len = divisor(std::max<Index>(call.q_len, 1)),
      .group = divisor(p.heads / p.kv_heads),
      .page = divisor(std::clamp<Index>(p.page_size, 1, split_kv_most_keys)),
      .rows = divisor(cut.rows),
      .tiles = divisor(std::max<Index>(tiles_of_rows(p, cut.rows), 1)),
      .chunks = divisor(most_chunks(p, cut.splits)),
      .splits = divisor(cut.splits),
      .chunk_step = divisor(cut.chunk_step),
      .partial_out = reinterpret_cast<float*>(memory),
      .partial_states = reinterpret_cast<Vector<float, 2>*>(memory + partials.out_bytes),
      .out_stride = partials.out_stride,
  };
}

}  // namespace rapt::gpu
