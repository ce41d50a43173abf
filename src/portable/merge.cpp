#include "src/portable/merge.hpp"

#include "src/core/fault.hpp"
#include "src/portable/common.hpp"

namespace rapt::gpu {
namespace {

constexpr Index most_rows = 0x7fffffff;  // that a Divisor divides

// Whether every row starts at a multiple of 16 bytes and ends at one.
bool has_whole_rows(const Tensor& out) {
  const Index element_bytes = size_in_bytes(out.dtype);
  bool whole = reinterpret_cast<std::uintptr_t>(out.data) % access_bytes == 0 &&
               out.size[3] * element_bytes % access_bytes == 0;
  for (std::size_t axis = 0; axis < 3; ++axis)
    whole = whole && (out.size[axis] == 1 || out.stride[axis] * element_bytes % access_bytes == 0);
  return whole;
}

MergePartial plain(const Partial& partial) {
  const auto &out = partial.out.stride, &lse = partial.lse.stride;
  return {
      .out = partial.out.data,
      .dtype = partial.out.dtype,
      .whole = has_whole_rows(partial.out),
      .lse = static_cast<float*>(partial.lse.data),
      .out_stride = {out[0], out[1], out[2]},
      .lse_stride = {lse[0], lse[2], lse[1]},
  };
}

}  // namespace

MergeParameters merge_parameters(const Device& device, const Partial& first, const Partial& second,
                                 const Partial& result) {
  const auto [batch, seq, heads, dim] = result.out.size;
  int lane_bits = 0;
  while (lane_bits < MergeShape::most_lane_bits && Index{MergeShape::each} << lane_bits < dim)
    ++lane_bits;
  const Index rows = batch * seq * heads;
  const double lanes = double(rows) * double(1 << lane_bits);
  if (rows > most_rows || !blocks_fit(lanes / MergeShape::threads + 1, device)) {
    fault("merge: there are ", rows, " rows (batch · seq · heads) of ", dim,
          " elements, more than ", device.to_string(), " takes at once; merge the batch in parts");
  }
  return {
      .first = plain(first),
      .second = plain(second),
      .result = plain(result),
      .rows = static_cast<int>(rows),
      .heads = divisor(heads),
      .seq = divisor(seq),
      .dim = dim,
      .lane_bits = lane_bits,
  };
}

}  // namespace rapt::gpu
