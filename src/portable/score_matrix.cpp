#include "src/portable/score_matrix.hpp"

#include <algorithm>

#include "src/core/call.hpp"
#include "src/core/text.hpp"
#include "src/gpu/naive.hpp"
#include "src/portable/common.hpp"

namespace rapt::gpu {
namespace {

using semantics::divided_up;
using semantics::rounded_up;

Index rows_of(const Problem& p) { return (p.varlen ? p.total_q : p.batch * p.q_len) * p.heads; }

Index chunk_of(const Problem& p, Index keys) {
  const Index wanted = keys == 0 ? p.kv_len : std::min(keys, p.kv_len);
  return rounded_up(std::max<Index>(wanted, 1), matrix_access);
}

}  // namespace

MatrixShape::MatrixShape(const Problem& p, Index keys, Index wanted_slices)
    : rows(rows_of(p)), chunk(chunk_of(p, keys)) {
  slice_dim = rounded_up(divided_up(std::max<Index>(p.qk_dim, 1), wanted_slices), 32);
  slices = divided_up(std::max<Index>(p.qk_dim, 1), slice_dim);
  states_at = rounded_up(slices * rows * chunk * 4, 64);
  sums_at = states_at + rounded_up(4 * rows * 4, 64);
  bytes = static_cast<std::size_t>(sums_at + (chunk < p.kv_len ? 2 * rows * p.v_dim * 4 : 0));
}

Support matrix_fits(const Problem& p, const Device& device, Index keys) {
  const double rows = double(rows_of(p)), bytes = rows * double(chunk_of(p, keys)) * 4;
  const double limit = device.nominal.memory_bytes;
  if (limit > 0 && bytes > limit) {
    return Support::no(text("its scores would need ", human_bytes(bytes), "; ", device.to_string(),
                            " has ", human_bytes(limit)));
  }
  // The most blocks any of its launches has: one thread a score, or one block a row.
  const double tiles = double(divided_up(p.q_len, 8)) * double(p.heads) * double(p.batch);
  const double blocks = std::max(tiles * double(divided_up(chunk_of(p, keys), 16)),
                                 tiles * double(divided_up(p.v_dim, 32)) * 2);
  return blocks_fit(std::max(blocks, double(p.batch) * double(p.q_len) * double(p.heads)), device);
}

ScoreMatrix make_matrix(const MatrixShape& shape, const Problem& p, const semantics::Call& call,
                        const Launch& launch) {
  const Index width = access_bytes / size_in_bytes(p.dtype);
  const bool aligned = p.alignment == access_bytes;
  const bool whole = aligned && p.qk_dim % width == 0 && p.v_dim % width == 0;
  const bool even = !p.varlen && !p.lengths && !p.paged() && shape.chunk >= p.kv_len;
  std::byte* workspace = launch.workspace.data();
  return {
      .call = call,
      .dtype = p.dtype,
      .aligned = aligned,
      .plain = whole && even && !is_general(p),
      .heads = divisor(p.heads),
      .group = divisor(p.heads / p.kv_heads),
      .q_len = divisor(std::max<Index>(call.q_len, 1)),
      .rows = shape.rows,
      .first_key = 0,
      .chunk = shape.chunk,
      .slices = shape.slices,
      .slice_dim = shape.slice_dim,
      .scores = reinterpret_cast<float*>(workspace),
      .states = reinterpret_cast<float*>(workspace + shape.states_at),
      .sums =
          shape.chunk < p.kv_len ? reinterpret_cast<float*>(workspace + shape.sums_at) : nullptr,
      .last = true,
  };
}

}  // namespace rapt::gpu
