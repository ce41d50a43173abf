// What backward has beside a Call: gradients of the results, which it reads, and those of the
// inputs, which it writes. In a backward call, out and lse are read.
#pragma once

#include "src/semantics/call.hpp"

namespace rapt::semantics {

// Strides are as those of q, k, v, out, lse and bias in Call.
struct Gradients {
  const void* dout;  // of out's type
  Index dout_stride[3];
  const float* dlse;  // null: absent
  Index dlse_stride[3];

  void *dq, *dk, *dv;
  bool dq_is_f32, dk_is_f32, dv_is_f32;  // else of the element type
  Index dq_stride[3], dk_stride[3], dv_stride[3];

  void* dbias;        // null: not wanted
  bool dbias_is_f32;  // else of the element type
  Index dbias_size[4], dbias_stride[4];
  float *dsinks, *dalibi;  // null: not wanted
  Index dalibi_stride;
};

// key_place() of a problem of backward, whose keys are not paged: kernels need not look for pages.
RAPT_HOST_DEVICE Place unpaged_key_place(const Call& call, const Sequence& s, Index key) {
  return {call.kv_starts ? 0 : s.index, s.kv_begin + key};
}

// How many keys of a sequence are stored, of which kv_lengths may leave some unused. Their
// gradients are zeros.
RAPT_HOST_DEVICE Index stored_keys(const Call& call, const Sequence& s) {
  if (!call.kv_starts) return call.kv_len;
  return clamp(call.kv_starts[s.index + 1] - s.kv_begin, 0,
               smaller(call.kv_len, call.total_kv - s.kv_begin));
}

}  // namespace rapt::semantics
