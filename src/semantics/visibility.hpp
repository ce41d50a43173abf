// Which keys a query may attend to.
//
// A query stands at position p = i + offset among the keys and sees keys p − left … p + right that
// exist; and, up to p + right, the first keys whatever the left bound says. `in_window` is the
// definition, for one pair. The ranges say the same for a row or a tile of rows at once; an
// exhaustive test over small sizes holds them to the definition. Dense masks come on top, pair by
// pair.
//
//   keys   0 … first_keys          p − left …… p … p + right
//          ├── first ──┤           ├─────── window ───────┤
//
// What comes next among the keys is asked of next_keys(), which gives them in runs, or of
// key_tiles(), which gives whole tiles; neither visits the gap.
#pragma once

#include "src/semantics/portable.hpp"

namespace rapt::semantics {

struct Window {
  bool has_left, has_right;
  Index left, right;  // 0 or more
  Index first_keys;   // that the left bound does not hide; 0 without one
};

// Half-open: begin ≤ key < end. Empty ranges have begin == end.
struct Range {
  Index begin, end;
};

RAPT_HOST_DEVICE bool in_window(const Window& window, Index position, Index key, Index kv_len) {
  if (key < 0 || key >= kv_len) return false;
  if (window.has_left && key < position - window.left && key >= window.first_keys) return false;
  if (window.has_right && key > position + window.right) return false;
  return true;
}

// Keys before those from position − left on, between 0 and kv_len.
RAPT_HOST_DEVICE Index first_key(const Window& window, Index position, Index kv_len) {
  return window.has_left ? clamp(position - window.left, 0, kv_len) : 0;
}

// One past the last key that a query at `position` sees, between 0 and kv_len.
RAPT_HOST_DEVICE Index end_key(const Window& window, Index position, Index kv_len) {
  return window.has_right ? clamp(position + window.right + 1, 0, kv_len) : kv_len;
}

// The three ranges below are for windows without first keys: they hold those between the bounds.
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

// Keys in order: those below window.first_keys, then those from there on. The two may touch.
struct KeyRanges {
  Range first, window;
};

// Keys between bounds, and the first keys up to `end`.
RAPT_HOST_DEVICE KeyRanges with_first_keys(const Window& window, Index begin, Index end,
                                           Index kv_len) {
  if (window.first_keys == 0) return {{0, 0}, {begin, larger(begin, end)}};
  const Index first = smaller(window.first_keys, kv_len);
  begin = larger(begin, first);
  return {{0, smaller(first, end)}, {begin, larger(begin, end)}};
}

// The keys that a query at `position` sees.
RAPT_HOST_DEVICE KeyRanges visible_keys(const Window& window, Index position, Index kv_len) {
  return with_first_keys(window, first_key(window, position, kv_len),
                         end_key(window, position, kv_len), kv_len);
}

// The keys that at least one of the queries at first … last (positions, both included) sees.
RAPT_HOST_DEVICE KeyRanges visible_to_some(const Window& window, Index first, Index last,
                                           Index kv_len) {
  return with_first_keys(window, first_key(window, first, kv_len), end_key(window, last, kv_len),
                         kv_len);
}

// The keys that every one of those queries sees.
RAPT_HOST_DEVICE KeyRanges visible_to_all(const Window& window, Index first, Index last,
                                          Index kv_len) {
  return with_first_keys(window, first_key(window, last, kv_len), end_key(window, first, kv_len),
                         kv_len);
}

// The queries, of q_len whose first stands at position `offset`, that may see one of the keys
// first … last (both included): the others see none of them.
RAPT_HOST_DEVICE Range queries_of_keys(const Window& window, Index first, Index last, Index q_len,
                                       Index offset) {
  const Index begin = window.has_right ? clamp(first - window.right - offset, 0, q_len) : 0;
  const bool ends = window.has_left && first >= window.first_keys;
  return {begin, ends ? clamp(last + window.left + 1 - offset, begin, q_len) : q_len};
}

RAPT_HOST_DEVICE bool is_empty(Range range) { return range.begin >= range.end; }

// The part of a range that lies in another.
RAPT_HOST_DEVICE Range within(Range range, Range other) {
  const Index begin = clamp(range.begin, other.begin, other.end);
  return {begin, clamp(range.end, begin, other.end)};
}

// From the first of the keys to one past the last.
RAPT_HOST_DEVICE Range span_of(const KeyRanges& keys) {
  if (is_empty(keys.first)) return keys.window;
  return {keys.first.begin, is_empty(keys.window) ? keys.first.end : keys.window.end};
}

// Whether a key, or every key of a tile, is among the keys.
RAPT_HOST_DEVICE bool holds(const KeyRanges& keys, Index key) {
  if (keys.first.end > 0 && key < keys.first.end) return true;
  return keys.window.begin <= key && key < keys.window.end;
}
RAPT_HOST_DEVICE bool holds(const KeyRanges& keys, Range tile) {
  const Index begin = keys.window.begin > keys.first.end ? keys.window.begin : 0;  // 0: they touch
  return tile.end <= keys.first.end || (begin <= tile.begin && tile.end <= keys.window.end);
}

// Whether some key of a tile, which is not empty, is among the keys.
RAPT_HOST_DEVICE bool meet(const KeyRanges& keys, Range tile) {
  if (keys.first.end > 0 && tile.begin < keys.first.end) return true;
  return !is_empty(keys.window) && tile.begin < keys.window.end && tile.end > keys.window.begin;
}

// A run: the next keys, at or after `from`, that lie in one tile (of `tile` keys, counted from key
// 0) and in one of the two ranges. Empty at the end. Runs go on at the end of the one before.
RAPT_HOST_DEVICE Range next_keys(const KeyRanges& keys, Index from, Index tile) {
  const Range& range = larger(from, keys.first.begin) < keys.first.end ? keys.first : keys.window;
  const Index begin = larger(from, range.begin);
  return {begin, larger(begin, smaller(range.end, begin / tile * tile + tile))};
}

// The keys of a run that are among others, which the same window left: a run never has keys on both
// sides of window.first_keys, so that they are one range.
RAPT_HOST_DEVICE Range within(const KeyRanges& keys, Range run) {
  return within(run.begin < keys.first.end ? keys.first : keys.window, run);
}

// The tiles of `size` keys, counted from key 0, that have some of the keys: each once, in order,
// numbered from 0. For those who take a tile whole, in any order, or share out the numbers.
struct KeyTiles {
  Index size, count;
  Index leading;  // before the gap
  Index skipped;  // in the gap

  RAPT_HOST_DEVICE Index first_key(Index number) const {
    return (number < leading ? number : number + skipped) * size;
  }
};

RAPT_HOST_DEVICE KeyTiles key_tiles(const KeyRanges& keys, Index size) {
  const Index leading = divided_up(keys.first.end, size);
  const Index begin = larger(leading, keys.window.begin / size);
  const Index end =
      is_empty(keys.window) ? begin : larger(begin, divided_up(keys.window.end, size));
  return {size, leading + end - begin, leading, begin - leading};
}

}  // namespace rapt::semantics
