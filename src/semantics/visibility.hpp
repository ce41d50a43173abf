// Which keys a query may attend to.
//
// A query stands at position p = i + offset among the keys and sees keys p − left … p + right that
// exist. `in_window` is the definition, for one pair. The ranges say the same for a row or a tile
// of rows at once; an exhaustive test over small sizes holds them to the definition. Dense masks
// come on top, pair by pair.
#pragma once

#include "src/semantics/portable.hpp"

namespace rapt::semantics {

struct Window {
  bool has_left, has_right;
  Index left, right;  // 0 or more
};

// Half-open: begin ≤ key < end. Empty ranges have begin == end.
struct Range {
  Index begin, end;
};

RAPT_HOST_DEVICE bool in_window(const Window& window, Index position, Index key, Index kv_len) {
  if (key < 0 || key >= kv_len) return false;
  if (window.has_left && key < position - window.left) return false;
  if (window.has_right && key > position + window.right) return false;
  return true;
}

// Keys before the first one that a query at `position` sees, between 0 and kv_len.
RAPT_HOST_DEVICE Index first_key(const Window& window, Index position, Index kv_len) {
  return window.has_left ? clamp(position - window.left, 0, kv_len) : 0;
}

// One past the last key that a query at `position` sees, between 0 and kv_len.
RAPT_HOST_DEVICE Index end_key(const Window& window, Index position, Index kv_len) {
  return window.has_right ? clamp(position + window.right + 1, 0, kv_len) : kv_len;
}

RAPT_HOST_DEVICE Range key_range(const Window& window, Index position, Index kv_len) {
  return {first_key(window, position, kv_len), end_key(window, position, kv_len)};
}

// The keys that at least one of the queries at first … last (positions, both included) may see.
RAPT_HOST_DEVICE Range keys_of_some(const Window& window, Index first, Index last, Index kv_len) {
  return {first_key(window, first, kv_len), end_key(window, last, kv_len)};
}

// The keys that every one of those queries sees.
RAPT_HOST_DEVICE Range keys_of_all(const Window& window, Index first, Index last, Index kv_len) {
  const Index begin = first_key(window, last, kv_len);
  return {begin, larger(begin, end_key(window, first, kv_len))};
}

}  // namespace rapt::semantics
