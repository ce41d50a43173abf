// Scores that are more than scaled dot products: from a warpgroup's tile of dot products to
// exponents.
#pragma once

#include "src/cuda/flash_wgmma/shared_storage.cuh"
#include "src/cuda/flash_wgmma/softmax.cuh"

namespace rapt::cuda::flash_wgmma {

// cap · tanh(score / cap) on the FMA units, for scores well below the cap, as most are: a
// polynomial in their square. The exponentials that tanh needs would take longer than both
// products.
template <int terms>
struct Capped {
  static_assert(terms == 3 || terms == 5);
  // Of the cap, at most. The polynomial is then off by 4e-7 at most.
  static constexpr float share = terms == 3 ? 0.25f : 0.7f;
  float factors[terms];

  // tanh(x) / x as a polynomial in x², and from x² to the square of a dot product.
  RAPT_DEVICE explicit Capped(const Parameters& p) {
    constexpr float three[] = {0.9999996f, -0.33321908f, 0.12841613f};
    constexpr float five[] = {0.9999997f, -0.33330213f, 0.13281113f, -0.050836236f, 0.01377371f};
    float power = p.scale;
    RAPT_UNROLL
    for (int k = 0; k < terms; ++k, power *= p.share_of_cap * p.share_of_cap)
      factors[k] = (terms == 3 ? three[k % 3] : five[k]) * power;
  }
  RAPT_DEVICE float exponent(float dot, float minus) const {
    const float square = dot * dot;
    float factor = factors[terms - 1];
    RAPT_UNROLL
    for (int k = terms - 2; k >= 0; --k) factor = fmaf(factor, square, factors[k]);
    return fmaf(dot, factor, -minus);
  }
};

// The largest of a thread's part of a row, whatever its sign.
template <int n>
RAPT_DEVICE float largest_size(const float (&scores)[n][4], int row) {
  float even = 0, odd = 0;
  RAPT_UNROLL
  for (int j = 0; j < n; ++j) {
    even = fmaxf(even, fabsf(scores[j][2 * row]));
    odd = fmaxf(odd, fabsf(scores[j][2 * row + 1]));
  }
  return fmaxf(even, odd);
}
// Of those of the thread's two rows that exist, as a share of the cap.
RAPT_DEVICE float share_of_cap(const Parameters& p, const bool (&exists)[2],
                               const float (&sizes)[2]) {
  const float largest = fmaxf(exists[0] ? sizes[0] : 0, exists[1] ? sizes[1] : 0);
  // Far from where squares are no longer finite.
  if (largest > 1e18f) return INFINITY;
  return largest * fabsf(p.share_of_cap);
}
template <int terms>
RAPT_DEVICE bool all_fit(float share) {
  return __all_sync(Target::all_lanes, share < Capped<terms>::share);
}

// Dot products become exponents.
template <int n>
RAPT_DEVICE void cap_scores(const Parameters& p, float share, float (&scores)[n][4]) {
  if (all_fit<5>(share)) {
    const Capped<5> capped(p);
    RAPT_UNROLL
    for (int j = 0; j < n; ++j) {
      RAPT_UNROLL
      for (int i = 0; i < 4; ++i) scores[j][i] = capped.exponent(scores[j][i], 0);
    }
    return;
  }
  const float to_power = 2 * gpu::log2_e * p.share_of_cap;
  RAPT_UNROLL
  for (int j = 0; j < n; ++j) {
    RAPT_UNROLL
    for (int i = 0; i < 4; ++i) {
      const float power = Target::exp2(scores[j][i] * to_power);
      scores[j][i] = p.call.softcap * gpu::log2_e * (1 - __fdividef(2, power + 1));
    }
  }
}

// A thread's part of a row of scores, both of a pair of keys in turn.
template <int n, class Function>
RAPT_DEVICE void for_each_key(float (&scores)[n][4], int half, Function function) {
  RAPT_UNROLL
  for (int j = 0; j < n; ++j) {
    RAPT_UNROLL
    for (int i = 0; i < 2; ++i) function(8 * j + i, scores[j][2 * half + i]);
  }
}

// From a tile of biases that TMA brought: (64, keys) in panels of 64 columns.
template <class Element, int n>
RAPT_DEVICE void add_tma_bias(const unsigned char* tile, int row, float (&scores)[n][4]) {
  const int lane = Target::lane();
  RAPT_UNROLL
  for (int half = 0; half < 2; ++half) {
    const unsigned char* from = tile + (row + 8 * half) * hopper::panel_row_bytes + lane % 4 * 4;
    RAPT_UNROLL
    for (int j = 0; j < n; ++j) {
      // Rows are swizzled: their 16-byte pieces, of 8 keys, change places.
      const int piece = (j % 8 ^ row % 8) * 16;
      const uint32_t word = *reinterpret_cast<const uint32_t*>(
          from + j / 8 * warpgroup_rows * hopper::panel_row_bytes + piece);
      const Element pair[2] = {{static_cast<uint16_t>(word)}, {static_cast<uint16_t>(word >> 16)}};
      RAPT_UNROLL
      for (int i = 0; i < 2; ++i) {
        float& score = scores[j][2 * half + i];
        score = fmaf(Target::to_float(pair[i]), gpu::log2_e, score);
      }
    }
  }
}

// From wherever biases lie.
template <class Element, int n>
RAPT_DEVICE void add_bias(const Parameters& p, const WorkTileInfo& work_tile, const RowPlace& at,
                          int half, int first_key, float (&scores)[n][4]) {
  const semantics::Call& call = p.call;
  const Index first = semantics::pair_offset(call.bias_stride, work_tile.sequence, at.head,
                                             work_tile.first + at.query, 0);
  const auto place = [&](int column) {
    return first + min(first_key + column, work_tile.kv_len - 1) * call.bias_stride[3];
  };
  if (call.bias_is_f32) {
    for_each_key(scores, half, [&](int column, float& score) {
      score = fmaf(__ldg(static_cast<const float*>(call.bias) + place(column)), gpu::log2_e, score);
    });
  } else {
    for_each_key(scores, half, [&](int column, float& score) {
      const Element bias = Target::load(static_cast<const Element*>(call.bias) + place(column));
      score = fmaf(Target::to_float(bias), gpu::log2_e, score);
    });
  }
}

// Dot products become exponents. `share` is that of the cap.
template <int n>
RAPT_DEVICE void scale_scores(const Parameters& p, float share, float (&scores)[n][4]) {
  if (p.call.softcap > 0) return cap_scores(p, share, scores);
  RAPT_UNROLL
  for (int j = 0; j < n; ++j) {
    RAPT_UNROLL
    for (int i = 0; i < 4; ++i) scores[j][i] *= p.scale;
  }
}

// Adds what depends on the pair, but for biases that were loaded, and hides what a mask hides: for
// `row` of the warpgroup and the one 8 further down, from key `first_key` on, that of the thread's
// column 0. Nothing behind the last key is read, though what comes out for it does not matter.
template <class Element, int n>
RAPT_DEVICE void score_pairs(const Parameters& p, const WorkTileInfo& work_tile, int group, int row,
                             int first_key, float (&scores)[n][4]) {
  const semantics::Call& call = p.call;
  const bool reads_bias = call.bias && !p.bias_by_tma;
  if ((!reads_bias && !call.alibi && !call.mask) || work_tile.kv_len == 0) return;
  RAPT_UNROLL
  for (int half = 0; half < 2; ++half) {
    const RowPlace at = row_place(p, work_tile, group, row + 8 * half);
    if (!at.exists) continue;
    if (reads_bias) add_bias<Element>(p, work_tile, at, half, first_key, scores);
    if (call.alibi) {
      const float slope = semantics::slope_of(call, work_tile.sequence, at.head) * gpu::log2_e;
      const float distance = static_cast<float>(work_tile.position + at.query - first_key);
      for_each_key(scores, half, [&](int column, float& score) {
        score -= slope * fabsf(distance - static_cast<float>(column));
      });
    }
    if (call.mask) {
      const uint8_t* mask =
          call.mask + semantics::pair_offset(call.mask_stride, work_tile.sequence, at.head,
                                             work_tile.first + at.query, 0);
      for_each_key(scores, half, [&](int column, float& score) {
        const int key = min(first_key + column, work_tile.kv_len - 1);
        score = __ldg(mask + key * call.mask_stride[3]) ? score : gpu::minus_infinity;
      });
    }
  }
}

// Of the thread's keys in one of its rows, those in `column` 0 or 1 of every eight: weights whose
// bit is not set become 0.
template <int n>
RAPT_DEVICE void keep_weights(uint32_t kept, int half, int column, float (&weights)[n][4]) {
  RAPT_UNROLL
  for (int j = 0; j < n; ++j)
    if (!(kept >> j & 1)) weights[j][2 * half + column] = 0;
}

// Weights of pairs that dropout drops become 0: for `row` of the warpgroup and the one 8 further
// down, from key `first_key` on, that of the thread's column 0. Two queries of one head, 8 apart,
// and keys 8 apart share draws.
template <int n>
RAPT_DEVICE void drop_weights(const Parameters& p, const WorkTileInfo& work_tile, int group,
                              int row, int first_key, float (&weights)[n][4]) {
  const RowPlace first = row_place(p, work_tile, group, row);
  const RowPlace second = row_place(p, work_tile, group, row + 8);
  const auto pairs_of = [&](const RowPlace& at) {
    return semantics::DropoutPairs(
        semantics::dropout_stream(p.call.dropout, work_tile.sequence, at.head));
  };
  const auto keeps = [&](semantics::DropoutPairs& pairs, const RowPlace& at, int j, int column) {
    const bool kept = pairs.keeps(work_tile.first + at.query, first_key + 8 * j + column);
    return static_cast<uint32_t>(kept) << j;
  };
  semantics::DropoutPairs pairs = pairs_of(first);
  RAPT_UNROLL
  for (int column = 0; column < 2; ++column) {
    uint32_t of_first = 0, of_second = 0;
    RAPT_NO_UNROLL
    for (int j = 0; j < n; ++j) {
      of_first |= keeps(pairs, first, j, column);
      if (first.head == second.head) of_second |= keeps(pairs, second, j, column);
    }
    keep_weights(of_first, 0, column, weights);
    if (first.head == second.head) keep_weights(of_second, 1, column, weights);
  }
  if (first.head == second.head) return;
  pairs = pairs_of(second);
  RAPT_UNROLL
  for (int column = 0; column < 2; ++column) {
    uint32_t of_second = 0;
    RAPT_NO_UNROLL
    for (int j = 0; j < n; ++j) of_second |= keeps(pairs, second, j, column);
    keep_weights(of_second, 1, column, weights);
  }
}

}  // namespace rapt::cuda::flash_wgmma
