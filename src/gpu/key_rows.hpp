// Where the keys, or the values, of one sequence and kv head begin: one multiplication a key,
// unless they lie in pages.
#pragma once

#include "src/gpu/target.hpp"
#include "src/semantics/call.hpp"

namespace rapt::gpu {

template <class Element>
class KeyRows {
 public:
  // `stride` is that of `data`: call.k and call.k_stride, or call.v and call.v_stride.
  RAPT_DEVICE KeyRows(const semantics::Call& call, const semantics::Sequence& sequence,
                      const void* data, const Index (&stride)[3], Index kv_head)
      : call_(call), sequence_(sequence), page_stride_(stride[0]), slot_stride_(stride[1]) {
    const semantics::Place origin =
        call.page_table ? semantics::Place{0, 0} : semantics::key_place(call, sequence, 0);
    first_ = static_cast<const Element*>(data) + semantics::row_offset(stride, origin, kv_head);
  }

  RAPT_DEVICE const Element* at(Index key) const {
    if (!call_.page_table) return first_ + key * slot_stride_;
    const semantics::Place place = semantics::key_place(call_, sequence_, key);
    return first_ + place.outer * page_stride_ + place.row * slot_stride_;
  }

 private:
  const semantics::Call& call_;
  const semantics::Sequence& sequence_;
  const Element* first_;
  Index page_stride_, slot_stride_;
};

}  // namespace rapt::gpu
