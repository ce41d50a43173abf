// Where the keys, or the values, of one sequence and kv head begin: one multiplication a key,
// unless they lie in pages.
#pragma once

#include "src/gpu/target.hpp"
#include "src/semantics/call.hpp"

namespace rapt::gpu {

// Pages of any size, for any number of keys. A Divisor does for fewer than 2³¹ keys.
struct PageSize {
  Index value;
  RAPT_DEVICE Index quotient(Index key) const { return key / value; }
  RAPT_DEVICE Index remainder(Index key) const { return key % value; }
};

template <class Element, class Pages = PageSize>
class KeyRows {
 public:
  // `stride` is that of `data`: call.k and call.k_stride, or call.v and call.v_stride.
  RAPT_DEVICE KeyRows(const semantics::Call& call, const Pages& pages,
                      const semantics::Sequence& sequence, const void* data,
                      const Index (&stride)[3], Index kv_head)
      : call_(call), pages_(pages), stride_(stride), sequence_(sequence.index) {
    const semantics::Place origin =
        paged() ? semantics::Place{0, 0} : semantics::key_place(call, sequence, 0);
    first_ = static_cast<const Element*>(data) + semantics::row_offset(stride, origin, kv_head);
  }
  RAPT_DEVICE KeyRows(const semantics::Call& call, const semantics::Sequence& sequence,
                      const void* data, const Index (&stride)[3], Index kv_head)
      : KeyRows(call, PageSize{call.page_size}, sequence, data, stride, kv_head) {}

  RAPT_DEVICE bool paged() const { return call_.page_table; }
  RAPT_DEVICE Index stride() const { return stride_[1]; }  // from key to key, where not paged

  template <class Key>
  RAPT_DEVICE const Element* at(Key key) const {
    if (!paged()) return first_ + key * stride_[1];
    return first_ + semantics::page_of(call_, sequence_, pages_.quotient(key)) * stride_[0] +
           pages_.remainder(key) * stride_[1];
  }

 private:
  const semantics::Call& call_;
  Pages pages_;
  const Index (&stride_)[3];
  Index sequence_;
  const Element* first_;
};

}  // namespace rapt::gpu
