// One attention call as plain numbers and pointers, and where its sequences, queries and keys lie
// in memory.
//
// A Call is what a kernel works from: it holds no classes, so that it can be passed to a GPU kernel
// by value. Lengths, starts and page tables are data that may be wrong (on a GPU nobody could look
// at them), so every lookup here clamps them into the tensor: wrong data gives a wrong result,
// never a wrong access.
#pragma once

#include "src/semantics/dropout.hpp"
#include "src/semantics/portable.hpp"
#include "src/semantics/visibility.hpp"

namespace rapt::semantics {

struct Call {
  // Sizes of this run. q_len and kv_len bound every sequence; the totals are the packed tensors'
  // rows.
  Index batch, heads, kv_heads, q_len, kv_len, qk_dim, v_dim;
  Index total_q, total_kv;

  Window window;
  bool has_offset;
  Index offset;
  float scale, softcap;

  // Element strides (batch or page, seq or slot, head); the last axis is contiguous.
  const void *q, *k, *v;
  void* out;
  bool out_is_f32;  // else of the element type
  Index q_stride[3], k_stride[3], v_stride[3], out_stride[3];
  float* lse;           // null: not wanted
  Index lse_stride[3];  // (batch, head, seq)

  const void* bias;  // null: absent
  bool bias_is_f32;  // else of the element type
  Index bias_stride[4];
  const uint8_t* mask;  // null: absent
  Index mask_stride[4];
  const float*
      alibi;  // slopes of query heads, for each sequence alibi_stride further; null: absent
  Index alibi_stride;
  const float* sinks;  // per query head; null: absent

  Dropout dropout;  // without a seed: none

  const int32_t *q_starts, *kv_starts, *kv_lengths;  // null: absent
  const int32_t* page_table;                         // null: not paged
  Index page_table_stride, page_size, page_count;
};

// One sequence of the batch: its lengths, and the tensor rows at which its queries and keys begin.
struct Sequence {
  Index index;
  Index q_begin, q_len;
  Index kv_begin, kv_len;
  Index offset;  // position of query 0
};

RAPT_HOST_DEVICE Sequence sequence(const Call& call, Index index) {
  Sequence s = {index, 0, call.q_len, 0, call.kv_len, 0};
  if (call.q_starts) {
    s.q_begin = clamp(call.q_starts[index], 0, call.total_q);
    s.q_len = clamp(call.q_starts[index + 1] - s.q_begin, 0,
                    smaller(call.q_len, call.total_q - s.q_begin));
  }
  if (call.kv_starts) {
    s.kv_begin = clamp(call.kv_starts[index], 0, call.total_kv);
    s.kv_len = clamp(call.kv_starts[index + 1] - s.kv_begin, 0,
                     smaller(call.kv_len, call.total_kv - s.kv_begin));
  }
  if (call.page_table && call.page_count == 0) s.kv_len = 0;  // a pool without pages has no keys
  if (call.kv_lengths) s.kv_len = clamp(call.kv_lengths[index], 0, s.kv_len);
  s.offset = call.has_offset ? call.offset : s.kv_len - s.q_len;
  return s;
}

// A place on the first two axes of a tensor.
struct Place {
  Index outer, row;
};

RAPT_HOST_DEVICE Place query_place(const Call& call, const Sequence& s, Index query) {
  return {call.q_starts ? 0 : s.index, s.q_begin + query};
}

// A number from the page table, brought into the pool.
RAPT_HOST_DEVICE int32_t existing_page(const Call& call, int32_t page) {
  const auto last = static_cast<int32_t>(smaller(call.page_count - 1, 0x7fffffff));
  return page < 0 ? 0 : page < last ? page : last;
}

// The page that an entry of a sequence's page table names.
RAPT_HOST_DEVICE Index page_of(const Call& call, Index sequence, Index entry) {
  return existing_page(call, call.page_table[sequence * call.page_table_stride + entry]);
}

RAPT_HOST_DEVICE Place key_place(const Call& call, const Sequence& s, Index key) {
  if (call.page_table) {
    return {page_of(call, s.index, key / call.page_size), key % call.page_size};
  }
  return {call.kv_starts ? 0 : s.index, s.kv_begin + key};
}

// Element offset of a row of one head.
RAPT_HOST_DEVICE Index row_offset(const Index (&stride)[3], Place place, Index head) {
  return place.outer * stride[0] + place.row * stride[1] + head * stride[2];
}

// Offset of one query's lse, whose axes are (batch, head, seq).
RAPT_HOST_DEVICE Index lse_offset(const Index (&stride)[3], Place place, Index head) {
  return place.outer * stride[0] + head * stride[1] + place.row * stride[2];
}
RAPT_HOST_DEVICE Index lse_offset(const Call& call, Place place, Index head) {
  return lse_offset(call.lse_stride, place, head);
}

// Offset of a pair in a bias or mask, whose strides are 0 where it is broadcast.
RAPT_HOST_DEVICE Index pair_offset(const Index (&stride)[4], Index sequence, Index head,
                                   Index query, Index key) {
  return sequence * stride[0] + head * stride[1] + query * stride[2] + key * stride[3];
}

// Where there are slopes.
RAPT_HOST_DEVICE float slope_of(const Call& call, Index sequence, Index head) {
  return call.alibi[sequence * call.alibi_stride + head];
}

RAPT_HOST_DEVICE Index kv_head_of(const Call& call, Index head) {
  return head / (call.heads / call.kv_heads);
}

}  // namespace rapt::semantics
