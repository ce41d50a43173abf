// From sums in registers to rows in memory.
#pragma once

#include "src/cuda/flash_wgmma/shared_storage.cuh"
#include "src/cuda/flash_wgmma/softmax.cuh"
#include "src/cuda/ptx/ldmatrix.cuh"
#include "src/cuda/ptx/pack.cuh"

namespace rapt::cuda::flash_wgmma {

// As many of four elements as there is room for in a row.
template <class Element>
RAPT_DEVICE void store_four(Element* to, uint2 four, int room) {
  if (room >= 4) {
    *reinterpret_cast<uint2*>(to) = four;
    return;
  }
  const uint32_t words[2] = {four.x, four.y};
  RAPT_UNROLL
  for (int i = 0; i < 3; ++i)
    if (i < room) to[i].bits = static_cast<uint16_t>(words[i / 2] >> i % 2 * 16);
}

// A warp's 16 rows, times `factor`, into `tile`: (16, 8 n) in swizzled panels, from where TMA takes
// them.
template <class Element, int n>
RAPT_DEVICE void stage_output(unsigned char* tile, const float (&out)[n][4],
                              const float (&factor)[2]) {
  RAPT_UNROLL
  for (int j = 0; j < n; j += 2) {
    uint32_t words[4];
    RAPT_UNROLL
    for (int i = 0; i < 4; ++i) {
      const float(&pairs)[4] = out[j + i / 2];
      const int half = i % 2;
      words[i] = ptx::pack_two<Element>(pairs[2 * half] * factor[half],
                                        pairs[2 * half + 1] * factor[half]);
    }
    ptx::stmatrix(
        hopper::fragment_address<hopper::SwizzledTile<2, warpgroup_rows, 8 * n>>(tile, 8 * j),
        words);
  }
}

// The same rows as below where results are f32: two columns in eight as they are. Through memory of
// the thread, and in a loop: unrolled, it would take registers from what every kernel does.
template <int n>
RAPT_DEVICE void store_f32_output(const Parameters& p, const WorkTileInfo& tile_info, int group,
                                  int row, const float (&out)[n][4], const float (&factor)[2]) {
  float memory[n][4];
  const int zero = Target::unknown(0);
  RAPT_UNROLL
  for (int j = 0; j < n; ++j) {
    RAPT_UNROLL
    for (int i = 0; i < 4; ++i) memory[j + zero][i] = out[j][i];
  }
  const int column = Target::lane() % 4 * 2, room = static_cast<int>(p.call.v_dim) - column;
  RAPT_UNROLL
  for (int half = 0; half < 2; ++half) {
    const RowPlace at = row_place(p, tile_info, group, row + 8 * half);
    if (!at.exists) continue;
    float* to = static_cast<float*>(p.call.out) +
                semantics::row_offset(p.call.out_stride, at.place, at.head) + column;
    RAPT_NO_UNROLL
    for (int j = 0; 8 * j < room && j < n; ++j) {
      to[8 * j] = memory[j][2 * half] * factor[half];
      if (8 * j + 1 < room) to[8 * j + 1] = memory[j][2 * half + 1] * factor[half];
    }
  }
}

// The whole of a thread's two rows, `row` of the warpgroup and the one 8 further down, times
// `factor`, to wherever they belong. A thread has two columns in eight; after an exchange with its
// neighbour, four in sixteen.
template <class Element, int n>
RAPT_DEVICE void store_output(const Parameters& p, const WorkTileInfo& tile_info, int group,
                              int row, const float (&out)[n][4], const float (&factor)[2]) {
  static_assert(n % 2 == 0);
  if (p.call.out_is_f32) return store_f32_output(p, tile_info, group, row, out, factor);
  const bool odd = Target::lane() % 2 != 0;
  const int column = Target::lane() % 4 / 2 * 4 + (odd ? 8 : 0);
  const int room = static_cast<int>(p.call.v_dim) - column;
  RAPT_UNROLL
  for (int half = 0; half < 2; ++half) {
    uint2 fours[n / 2];
    RAPT_UNROLL
    for (int j = 0; j < n / 2; ++j) {
      uint32_t words[2];
      RAPT_UNROLL
      for (int i = 0; i < 2; ++i)
        words[i] = ptx::pack_two<Element>(out[2 * j + i][2 * half] * factor[half],
                                          out[2 * j + i][2 * half + 1] * factor[half]);
      const uint32_t got = Target::shuffle_xor(odd ? words[0] : words[1], 1);
      fours[j] = odd ? make_uint2(got, words[1]) : make_uint2(words[0], got);
    }
    const RowPlace at = row_place(p, tile_info, group, row + 8 * half);
    if (!at.exists) continue;
    Element* to = static_cast<Element*>(p.call.out) +
                  semantics::row_offset(p.call.out_stride, at.place, at.head) + column;
    if (p.call.v_dim == 8 * n) {
      RAPT_UNROLL
      for (int j = 0; j < n / 2; ++j) *reinterpret_cast<uint2*>(to + 16 * j) = fours[j];
    } else {
      RAPT_UNROLL
      for (int j = 0; j < n / 2; ++j) store_four(to + 16 * j, fours[j], room - 16 * j);
    }
  }
}

RAPT_DEVICE void add_sink(gpu::RowState& state, float sink) {
  if (sink == gpu::minus_infinity) return;
  const float seen = state.sum == 0 ? gpu::minus_infinity : state.row_max;
  const float new_max = fmaxf(seen, sink), base = gpu::finite_max(new_max);
  state = {new_max, state.sum * Target::exp2(seen - base) + Target::exp2(sink - base)};
}

// From the parts of a quad to sums of whole rows.
RAPT_DEVICE void sum_rows(const Rows& rows, float (&sums)[2]) {
  RAPT_UNROLL
  for (int half = 0; half < 2; ++half) sums[half] = gpu::sum_over<Target, 4>(rows.sum[half]);
}

// Logarithms of sums go to memory, `factor` gets what to multiply the output by. A sink comes in
// last, so that weights are never small beside it alone.
RAPT_DEVICE void finish_rows(const Parameters& p, const WorkTileInfo& tile_info, int group, int row,
                             const float (&row_max)[2], const float (&sums)[2],
                             float (&factor)[2]) {
  RAPT_UNROLL
  for (int half = 0; half < 2; ++half)
    factor[half] = sums[half] == 0 ? 0 : Target::reciprocal(sums[half]);
  if (!p.call.lse && !p.call.sinks) return;
  RAPT_UNROLL
  for (int half = 0; half < 2; ++half) {
    gpu::RowState state = {row_max[half], sums[half]};
    const RowPlace at = row_place(p, tile_info, group, row + 8 * half);
    if (!at.exists) continue;
    if (p.call.sinks) {
      add_sink(state, p.call.sinks[at.head] * gpu::log2_e);
      const float base = gpu::finite_max(state.row_max);
      factor[half] = state.sum == 0 ? 0 : Target::exp2(row_max[half] - base) / state.sum;
    }
    if (p.call.lse && Target::lane() % 4 == 0)
      p.call.lse[semantics::lse_offset(p.call, at.place, at.head)] =
          gpu::natural_log_sum<Target>(state);
  }
}

}  // namespace rapt::cuda::flash_wgmma
