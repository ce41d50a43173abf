// Scores that are more than scaled dot products: from a warpgroup's tile of dot products to
// exponents.
#pragma once

#include "src/cuda/flash_wgmma/softmax.cuh"
#include "src/cuda/flash_wgmma/work.cuh"

namespace rapt::cuda::flash_wgmma {

// Dot products become cap · tanh(score / cap), as exponents. Scores well below the cap, and most
// are, take a polynomial on the FMA units; the exponentials that tanh needs would take longer than
// both products. It is off by 2e-7 at most.
template <int n>
RAPT_DEVICE void cap_scores(const Parameters& p, float (&scores)[n][4]) {
  const float to_argument = p.call.scale / p.call.softcap;
  float largest = 0;
  RAPT_UNROLL
  for (int j = 0; j < n; ++j) {
    RAPT_UNROLL
    for (int i = 0; i < 4; ++i) largest = fmaxf(largest, fabsf(scores[j][i]));
  }
  if (__all_sync(Target::all_lanes, largest * to_argument < 0.7f && largest < 1e18f)) {
    // tanh(x) / x as a polynomial in x², and from x² to the square of a dot product.
    const float square = to_argument * to_argument;
    float factors[5] = {0.999999663f, -0.333299451f, 0.132779678f, -0.0507202948f, 0.0136421223f};
    float power = p.scale;
    RAPT_UNROLL
    for (int k = 0; k < 5; ++k, power *= square) factors[k] *= power;
    RAPT_UNROLL
    for (int j = 0; j < n; ++j) {
      RAPT_UNROLL
      for (int i = 0; i < 4; ++i) {
        const float dot_squared = scores[j][i] * scores[j][i];
        float factor = factors[4];
        RAPT_UNROLL
        for (int k = 3; k >= 0; --k) factor = fmaf(factor, dot_squared, factors[k]);
        scores[j][i] *= factor;
      }
    }
    return;
  }
  RAPT_UNROLL
  for (int j = 0; j < n; ++j) {
    RAPT_UNROLL
    for (int i = 0; i < 4; ++i) {
      const float power = Target::exp2(scores[j][i] * (2 * gpu::log2_e * to_argument));
      scores[j][i] = p.call.softcap * gpu::log2_e * (1 - __fdividef(2, power + 1));
    }
  }
}

// Biases of two neighbouring keys.
template <class Element>
RAPT_DEVICE float2 bias_pair(const Parameters& p, Index at, bool both) {
  const semantics::Call& call = p.call;
  const Index next = both ? at + call.bias_stride[3] : at;
  if (call.bias_is_f32) {
    const auto* bias = static_cast<const float*>(call.bias);
    return p.bias_in_pairs && both ? __ldg(reinterpret_cast<const float2*>(bias + at))
                                   : make_float2(__ldg(bias + at), __ldg(bias + next));
  }
  const auto* bias = static_cast<const Element*>(call.bias);
  if (!p.bias_in_pairs || !both)
    return make_float2(Target::to_float(Target::load(bias + at)),
                       Target::to_float(Target::load(bias + next)));
  const uint32_t word = __ldg(reinterpret_cast<const uint32_t*>(bias + at));
  return make_float2(Target::to_float(Element{static_cast<uint16_t>(word)}),
                     Target::to_float(Element{static_cast<uint16_t>(word >> 16)}));
}

// `row` of the warpgroup and the one 8 further down; `first_key` is that of the thread's column 0.
// Nothing behind the last key is read, though what comes out for it does not matter.
template <class Element, int n>
RAPT_DEVICE void score(const Parameters& p, const Assignment& work, int group, int row,
                       int first_key, float (&scores)[n][4]) {
  const semantics::Call& call = p.call;
  if (call.softcap > 0) {
    cap_scores(p, scores);
  } else {
    RAPT_UNROLL
    for (int j = 0; j < n; ++j) {
      RAPT_UNROLL
      for (int i = 0; i < 4; ++i) scores[j][i] *= p.scale;
    }
  }
  if (!call.bias && !call.alibi && !call.mask) return;
  RAPT_UNROLL
  for (int half = 0; half < 2; ++half) {
    const RowPlace at = row_place(p, work, group, row + 8 * half);
    if (!at.exists) continue;
    const Index query = work.first + at.query;
    const int left = work.kv_len - first_key;  // keys from the thread's first one on
    if (call.bias) {
      const Index first =
          semantics::pair_offset(call.bias_stride, work.sequence, at.head, query, first_key);
      RAPT_UNROLL
      for (int j = 0; j < n; ++j) {
        if (8 * j >= left) continue;
        const float2 bias =
            bias_pair<Element>(p, first + 8 * j * call.bias_stride[3], 8 * j + 1 < left);
        scores[j][2 * half] += bias.x * gpu::log2_e;
        scores[j][2 * half + 1] += bias.y * gpu::log2_e;
      }
    }
    if (call.alibi) {
      const float slope = call.alibi[at.head] * gpu::log2_e;
      const float distance = static_cast<float>(work.position + at.query - first_key);
      RAPT_UNROLL
      for (int j = 0; j < n; ++j) {
        RAPT_UNROLL
        for (int i = 0; i < 2; ++i)
          scores[j][2 * half + i] -= slope * fabsf(distance - static_cast<float>(8 * j + i));
      }
    }
    if (call.mask) {
      const uint8_t* mask = call.mask + semantics::pair_offset(call.mask_stride, work.sequence,
                                                               at.head, query, first_key);
      RAPT_UNROLL
      for (int j = 0; j < n; ++j) {
        RAPT_UNROLL
        for (int i = 0; i < 2; ++i) {
          if (8 * j + i < left && !__ldg(mask + (8 * j + i) * call.mask_stride[3]))
            scores[j][2 * half + i] = gpu::minus_infinity;
        }
      }
    }
  }
}

}  // namespace rapt::cuda::flash_wgmma
