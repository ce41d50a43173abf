// Exhaustive over small sizes: the ranges of rows and tiles say the same as the definition, pair by
// pair, and lookups stay inside the tensors whatever the index data holds.
#include <array>
#include <climits>
#include <functional>

#include "src/semantics/call.hpp"
#include "tests/unit/support.hpp"

namespace rapt::test {
namespace {

using semantics::Index;
using semantics::KeyRanges;
using semantics::Range;

struct Setting {
  Index q_len, kv_len, offset;
  semantics::Window window;

  bool visible(Index query, Index key) const {
    return semantics::in_window(window, query + offset, key, kv_len);
  }
};

std::ostream& operator<<(std::ostream& stream, const Setting& s) {
  return stream << "q_len " << s.q_len << " kv_len " << s.kv_len << " offset " << s.offset
                << " left " << (s.window.has_left ? s.window.left : -1) << " right "
                << (s.window.has_right ? s.window.right : -1) << " (-1: unbounded) first keys "
                << s.window.first_keys;
}

void for_each_setting(const std::function<void(const Setting&)>& visit) {
  constexpr Index longest = 5, widest = 4, furthest = 7, unbounded = -1;
  for (Index q_len = 0; q_len <= longest; ++q_len)
    for (Index kv_len = 0; kv_len <= longest; ++kv_len)
      for (Index offset = -furthest; offset <= furthest; ++offset)
        for (Index left = unbounded; left <= widest; ++left)
          for (Index right = unbounded; right <= widest; ++right)
            for (Index first_keys = 0; first_keys <= (left == unbounded ? 0 : longest + 1);
                 ++first_keys)
              visit({q_len,
                     kv_len,
                     offset,
                     {left != unbounded, right != unbounded, std::max<Index>(left, 0),
                      std::max<Index>(right, 0), first_keys}});
}

// Queries `first` to `last` of a setting, and what is visible to them.
struct Rows {
  const Setting& setting;
  Index first, last;

  bool some_see(Index key) const {
    for (Index query = first; query <= last; ++query) {
      if (setting.visible(query, key)) return true;
    }
    return false;
  }
  bool all_see(Index key) const {
    for (Index query = first; query <= last; ++query) {
      if (!setting.visible(query, key)) return false;
    }
    return true;
  }
  KeyRanges of_some() const {
    return semantics::visible_to_some(setting.window, first + setting.offset, last + setting.offset,
                                      setting.kv_len);
  }
  KeyRanges of_all() const {
    return semantics::visible_to_all(setting.window, first + setting.offset, last + setting.offset,
                                     setting.kv_len);
  }
};

std::ostream& operator<<(std::ostream& stream, const Rows& rows) {
  return stream << rows.setting << ": queries " << rows.first << " to " << rows.last;
}

void for_each_rows(const std::function<void(const Rows&)>& visit) {
  for_each_setting([&](const Setting& s) {
    for (Index first = 0; first < s.q_len; ++first)
      for (Index last = first; last < s.q_len; ++last) visit({s, first, last});
  });
}

constexpr std::array<Index, 4> tile_sizes = {1, 2, 3, 8};

bool inside(const Range& range, Index key) { return range.begin <= key && key < range.end; }

bool well_formed(const Range& range, Index kv_len) {
  return 0 <= range.begin && range.begin <= range.end && range.end <= kv_len;
}

TEST(Visibility, AQueryAtPositionPSeesKeysFromPMinusLeftToPPlusRight) {
  const semantics::Window window = {true, true, 2, 1, 0};
  std::vector<Index> seen;
  for (Index key = -3; key < 12; ++key) {
    if (semantics::in_window(window, 4, key, 10)) seen.push_back(key);
  }
  EXPECT_EQ(seen, (std::vector<Index>{2, 3, 4, 5}));
  EXPECT_FALSE(semantics::in_window({false, false, 0, 0, 0}, 4, 10, 10)) << "past the last key";
  EXPECT_FALSE(semantics::in_window({false, false, 0, 0, 0}, 4, -1, 10)) << "before the first key";
}

TEST(Visibility, AQueryAlsoSeesTheFirstKeysUpToItsRightBound) {
  const semantics::Window window = {true, true, 1, 0, 3};
  const auto seen_from = [&](Index position) {
    std::vector<Index> seen;
    for (Index key = -3; key < 12; ++key) {
      if (semantics::in_window(window, position, key, 10)) seen.push_back(key);
    }
    return seen;
  };
  EXPECT_EQ(seen_from(6), (std::vector<Index>{0, 1, 2, 5, 6}));
  EXPECT_EQ(seen_from(3), (std::vector<Index>{0, 1, 2, 3})) << "the window touches them";
  EXPECT_EQ(seen_from(1), (std::vector<Index>{0, 1})) << "no key after the position";
  EXPECT_EQ(seen_from(20), (std::vector<Index>{0, 1, 2})) << "the window is past the keys";
}

TEST(Visibility, TheRangeOfARowHoldsExactlyTheKeysItSees) {
  for_each_setting([](const Setting& s) {
    if (s.window.first_keys > 0) return;
    for (Index query = 0; query < s.q_len; ++query) {
      const Range range = semantics::key_range(s.window, query + s.offset, s.kv_len);
      if (!well_formed(range, s.kv_len)) ADD_FAILURE() << s << ": range leaves the keys";
      for (Index key = 0; key < s.kv_len; ++key) {
        if (inside(range, key) != s.visible(query, key))
          ADD_FAILURE() << s << ": query " << query << " key " << key;
      }
    }
  });
}

TEST(Visibility, TheRangesOfATileHoldExactlyTheKeysThatSomeOrAllOfItsRowsSee) {
  for_each_rows([](const Rows& rows) {
    const Setting& s = rows.setting;
    if (s.window.first_keys > 0) return;
    const Range some =
        semantics::keys_of_some(s.window, rows.first + s.offset, rows.last + s.offset, s.kv_len);
    const Range all =
        semantics::keys_of_all(s.window, rows.first + s.offset, rows.last + s.offset, s.kv_len);
    if (!well_formed(some, s.kv_len) || !well_formed(all, s.kv_len))
      ADD_FAILURE() << rows << ": a range leaves the keys";
    for (Index key = 0; key < s.kv_len; ++key) {
      if (inside(some, key) != rows.some_see(key) || inside(all, key) != rows.all_see(key))
        ADD_FAILURE() << rows << " key " << key;
    }
  });
}

bool well_formed(const KeyRanges& keys, const Setting& s) {
  const Index first_keys = std::min(s.window.first_keys, s.kv_len);
  return well_formed(keys.first, s.kv_len) && well_formed(keys.window, s.kv_len) &&
         keys.first.begin == 0 && keys.first.end <= first_keys && keys.window.begin >= first_keys;
}

TEST(Visibility, TheTwoRangesOfARowHoldExactlyTheKeysItSees) {
  for_each_setting([](const Setting& s) {
    for (Index query = 0; query < s.q_len; ++query) {
      const KeyRanges keys = semantics::visible_keys(s.window, query + s.offset, s.kv_len);
      if (!well_formed(keys, s)) ADD_FAILURE() << s << ": query " << query << " out of order";
      for (Index key = 0; key < s.kv_len; ++key) {
        if (semantics::holds(keys, key) != s.visible(query, key))
          ADD_FAILURE() << s << ": query " << query << " key " << key;
      }
    }
  });
}

TEST(Visibility, TheQueriesOfAKeyAreExactlyThoseThatSeeItAndOfATileNoneIsMissing) {
  for_each_setting([](const Setting& s) {
    for (Index first = 0; first < s.kv_len; ++first) {
      for (Index last = first; last < s.kv_len; ++last) {
        const Range queries = semantics::queries_of_keys(s.window, first, last, s.q_len, s.offset);
        if (!well_formed(queries, s.q_len)) ADD_FAILURE() << s << ": range leaves the queries";
        for (Index query = 0; query < s.q_len; ++query) {
          for (Index key = first; key <= last; ++key) {
            const bool sees = s.visible(query, key), held = inside(queries, query);
            if ((sees && !held) || (first == last && held && !sees))
              ADD_FAILURE() << s << ": query " << query << " key " << key;
          }
        }
      }
    }
  });
}

TEST(Visibility, TheTwoRangesOfATileHoldExactlyTheKeysThatSomeOrAllOfItsRowsSee) {
  for_each_rows([](const Rows& rows) {
    const KeyRanges some = rows.of_some(), all = rows.of_all();
    if (!well_formed(some, rows.setting) || !well_formed(all, rows.setting))
      ADD_FAILURE() << rows << " out of order";
    const Range span = semantics::span_of(some);
    for (Index key = 0; key < rows.setting.kv_len; ++key) {
      if (semantics::holds(some, key) != rows.some_see(key) ||
          semantics::holds(all, key) != rows.all_see(key))
        ADD_FAILURE() << rows << " key " << key;
      if (rows.some_see(key) && !inside(span, key)) ADD_FAILURE() << rows << " key " << key;
    }
    if (!semantics::is_empty(span) && !(rows.some_see(span.begin) && rows.some_see(span.end - 1)))
      ADD_FAILURE() << rows << ": the span is too wide";
  });
}

TEST(Visibility, ATileIsSeenWholeWhereEveryKeyOfItIs) {
  for_each_rows([](const Rows& rows) {
    for (Index begin = 0; begin < rows.setting.kv_len; ++begin) {
      bool whole = true;
      for (Index end = begin + 1; end <= rows.setting.kv_len; ++end) {
        whole = whole && rows.all_see(end - 1);
        if (semantics::holds(rows.of_all(), Range{begin, end}) != whole)
          ADD_FAILURE() << rows << " keys " << begin << " to before " << end;
      }
    }
  });
}

TEST(Visibility, RunsVisitEveryKeyThatSomeRowSeesOnceAndNoOther) {
  for_each_rows([](const Rows& rows) {
    const Setting& s = rows.setting;
    for (const Index size : tile_sizes) {
      Index from = 0;  // every key before it was visited, or is not to be
      const auto check_gap = [&](Index end) {
        for (; from < end; ++from) {
          if (rows.some_see(from)) ADD_FAILURE() << rows << " key " << from << " left out";
        }
      };
      const auto next = [&] { return semantics::next_keys(rows.of_some(), from, size); };
      for (Range run = next(); !semantics::is_empty(run); run = next()) {
        check_gap(run.begin);
        if (run.begin / size != (run.end - 1) / size) ADD_FAILURE() << rows << ": leaves a tile";
        for (Index query = rows.first; query <= rows.last; ++query) {
          const Range seen =
              semantics::within(semantics::visible_keys(s.window, query + s.offset, s.kv_len), run);
          for (Index key = run.begin; key < run.end; ++key) {
            if (inside(seen, key) != s.visible(query, key))
              ADD_FAILURE() << rows << ": query " << query << " key " << key << " of a run";
          }
        }
        for (; from < run.end; ++from) {
          if (!rows.some_see(from)) ADD_FAILURE() << rows << " key " << from << " visited";
        }
      }
      check_gap(s.kv_len);
    }
  });
}

TEST(Visibility, TilesWithKeysThatSomeRowSeesAreNumberedInOrder) {
  for_each_rows([](const Rows& rows) {
    for (const Index size : tile_sizes) {
      const semantics::KeyTiles tiles = semantics::key_tiles(rows.of_some(), size);
      std::vector<Index> expected, visited;
      for (Index key = 0; key < rows.setting.kv_len; ++key) {
        const Index tile = key / size * size;
        if (rows.some_see(key) && (expected.empty() || expected.back() != tile))
          expected.push_back(tile);
      }
      for (Index number = 0; number < tiles.count; ++number)
        visited.push_back(tiles.first_key(number));
      if (visited != expected) ADD_FAILURE() << rows << " in tiles of " << size;
    }
  });
}

TEST(Visibility, FlopsCountEveryVisiblePairOnce) {
  for_each_setting([](const Setting& s) {
    Index pairs = 0;
    for (Index query = 0; query < s.q_len; ++query)
      for (Index key = 0; key < s.kv_len; ++key) pairs += s.visible(query, key);
    Problem p;
    p.batch = 3;
    p.heads = 2;
    p.q_len = s.q_len;
    p.kv_len = s.kv_len;
    p.total_q = p.batch * p.q_len;
    p.total_kv = p.batch * p.kv_len;
    p.qk_dim = 5;
    p.v_dim = 2;
    if (s.window.has_left) p.window.left = s.window.left;
    if (s.window.has_right) p.window.right = s.window.right;
    p.window.first_keys = s.window.first_keys;
    p.offset = s.offset;
    const double per_pair = 2.0 * (5 + 2);
    if (p.flops() != per_pair * 2 * 3 * double(pairs))
      ADD_FAILURE() << s << ": flops " << p.flops() << " for " << pairs << " pairs";
    if (s.offset != s.kv_len - s.q_len) return;
    p.offset.reset();
    if (p.flops() != per_pair * 2 * 3 * double(pairs))
      ADD_FAILURE() << s << ": flops " << p.flops() << " with the default offset";
  });
}

// Three sequences of at most 4 queries and 5 keys in packed tensors of 6 and 9 rows.
struct Packed {
  std::array<std::int32_t, 4> q_starts = {0, 2, 2, 6}, kv_starts = {0, 5, 6, 9};
  std::array<std::int32_t, 3> kv_lengths = {3, 1, 0};
  semantics::Call call = {};

  Packed() {
    call.batch = 3;
    call.heads = call.kv_heads = 1;
    call.q_len = 4;
    call.kv_len = 5;
    call.total_q = 6;
    call.total_kv = 9;
    call.q_starts = q_starts.data();
    call.kv_starts = kv_starts.data();
  }
  Packed(const Packed&) = delete;
};

TEST(Sequence, PackedSequencesBeginAtTheirStartsAndAlignAtTheEnd) {
  const Packed packed;
  const auto last = semantics::sequence(packed.call, 2);
  EXPECT_EQ(last.q_begin, 2);
  EXPECT_EQ(last.q_len, 4);
  EXPECT_EQ(last.kv_begin, 6);
  EXPECT_EQ(last.kv_len, 3);
  EXPECT_EQ(last.offset, -1);
  const auto place = semantics::key_place(packed.call, last, 2);
  EXPECT_EQ(place.outer, 0);
  EXPECT_EQ(place.row, 8);
  EXPECT_EQ(semantics::sequence(packed.call, 1).q_len, 0) << "a sequence without queries";
}

TEST(Sequence, LengthsShortenTheKeysAndMoveTheDefaultOffset) {
  Packed packed;
  packed.call.kv_lengths = packed.kv_lengths.data();
  EXPECT_EQ(semantics::sequence(packed.call, 0).kv_len, 3);
  EXPECT_EQ(semantics::sequence(packed.call, 0).offset, 1);
  EXPECT_EQ(semantics::sequence(packed.call, 2).kv_len, 0);
  packed.call.has_offset = true;
  packed.call.offset = 7;
  EXPECT_EQ(semantics::sequence(packed.call, 0).offset, 7) << "a given offset stays";
}

TEST(Sequence, WithoutStartsEverySequenceHasItsOwnPlaceOnTheBatchAxis) {
  semantics::Call call = {};
  call.q_len = 4;
  call.kv_len = 5;
  const auto s = semantics::sequence(call, 7);
  EXPECT_EQ(semantics::query_place(call, s, 3).outer, 7);
  EXPECT_EQ(semantics::query_place(call, s, 3).row, 3);
  EXPECT_EQ(semantics::key_place(call, s, 4).outer, 7);
  EXPECT_EQ(semantics::key_place(call, s, 4).row, 4);
}

constexpr std::array<std::int32_t, 9> hostile = {INT_MIN, -6, -1, 0, 2, 6, 10, 1000, INT_MAX};

TEST(Sequence, HostileStartsAndLengthsNeverLeaveThePackedTensors) {
  Packed packed;
  const auto check_all_sequences = [&] {
    for (Index i = 0; i < 3; ++i) {
      const auto s = semantics::sequence(packed.call, i);
      const bool q_inside = s.q_len >= 0 && s.q_len <= packed.call.q_len && s.q_begin >= 0 &&
                            s.q_begin + s.q_len <= packed.call.total_q;
      const bool kv_inside = s.kv_len >= 0 && s.kv_len <= packed.call.kv_len && s.kv_begin >= 0 &&
                             s.kv_begin + s.kv_len <= packed.call.total_kv;
      if (!q_inside || !kv_inside)
        ADD_FAILURE() << "sequence " << i << ": queries " << s.q_begin << " + " << s.q_len
                      << ", keys " << s.kv_begin << " + " << s.kv_len;
    }
  };
  for (const std::int32_t a : hostile) {
    for (const std::int32_t b : hostile) {
      for (const std::int32_t c : hostile) {
        packed.q_starts = {a, b, c, a};
        packed.kv_starts = {c, b, a, c};
        packed.kv_lengths = {b, c, a};
        packed.call.kv_lengths = nullptr;
        check_all_sequences();
        packed.call.kv_lengths = packed.kv_lengths.data();
        check_all_sequences();
      }
    }
  }
}

struct PagedCall {
  std::array<std::int32_t, 6> table = {4, 0, 2, 1, 3, 5};  // (2 sequences, 3 pages)
  std::array<std::int32_t, 2> kv_lengths = {7, 5};
  semantics::Call call = {};

  PagedCall() {
    call.batch = 2;
    call.q_len = 1;
    call.kv_len = 11;
    call.page_table = table.data();
    call.page_table_stride = 3;
    call.page_size = 4;
    call.page_count = 6;
    call.kv_lengths = kv_lengths.data();
  }
  PagedCall(const PagedCall&) = delete;
};

TEST(Paging, AKeyLiesInItsPageAtItsSlot) {
  const PagedCall paged;
  const auto s = semantics::sequence(paged.call, 1);
  EXPECT_EQ(semantics::key_place(paged.call, s, 3).outer, 1);
  EXPECT_EQ(semantics::key_place(paged.call, s, 3).row, 3);
  EXPECT_EQ(semantics::key_place(paged.call, s, 4).outer, 3);
  EXPECT_EQ(semantics::key_place(paged.call, s, 4).row, 0);
}

TEST(Paging, HostilePageTablesNeverLeaveThePool) {
  PagedCall paged;
  for (const std::int32_t page : hostile) {
    for (const std::int32_t length : hostile) {
      for (const Index page_count : {Index{0}, Index{1}, Index{6}}) {
        paged.table.fill(page);
        paged.kv_lengths.fill(length);
        paged.call.page_count = page_count;
        const auto s = semantics::sequence(paged.call, 1);
        for (Index key = 0; key < s.kv_len; ++key) {
          const auto place = semantics::key_place(paged.call, s, key);
          if (place.outer < 0 || place.outer >= page_count || place.row < 0 || place.row >= 4)
            ADD_FAILURE() << "page " << page << " of " << page_count << ", key " << key << ": ("
                          << place.outer << ", " << place.row << ")";
        }
      }
    }
  }
}

TEST(Heads, ConsecutiveQueryHeadsShareAKvHead) {
  semantics::Call call = {};
  call.heads = 6;
  call.kv_heads = 2;
  std::vector<Index> heads;
  for (Index head = 0; head < 6; ++head) heads.push_back(semantics::kv_head_of(call, head));
  EXPECT_EQ(heads, (std::vector<Index>{0, 0, 0, 1, 1, 1}));
}

}  // namespace
}  // namespace rapt::test
