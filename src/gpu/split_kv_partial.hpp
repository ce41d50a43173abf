// split_kv, first kernel: a tile of rows against a chunk of keys.
//
// `lanes` neighbouring lanes, a lane group, hold a key and a value, eight elements each: 16 bytes a
// lane of f16 and bf16. The lane groups of a block take neighbouring keys, each in `steps` steps
// whose loads are in flight together; while values are waited for, dot products are computed, and
// while weights are, the next keys are loaded. Each lane group keeps its own softmax; they are
// merged at the end. Its sums are promoted after every span of keys.
#pragma once

#include "src/gpu/lane_groups.hpp"
#include "src/gpu/long_sums.hpp"
#include "src/gpu/pair_sums.hpp"
#include "src/gpu/split_kv_parameters.hpp"

namespace rapt::gpu {

// As many as registers allow. 16-bit elements need half the registers of f32 while they wait.
constexpr int split_kv_steps(int element_bytes) { return element_bytes == 4 ? 2 : 4; }
constexpr int split_kv_blocks(int rows) { return rows == 8 ? 2 : rows == 4 ? 3 : 5; }

template <class Target, SplitKvConfig config, class Element>
struct SplitKvPartial {
  using Parameters = SplitKvParameters;
  static constexpr int threads = split_kv_threads, blocks = split_kv_blocks(config.rows);
  static constexpr int lanes = config.lanes, rows = config.rows, each = split_kv_elements;
  static constexpr int lane_groups = threads / lanes;
  static constexpr int steps = split_kv_steps(sizeof(Element));
  static constexpr int keys_at_once = lane_groups * steps;
  using Pairs = PairSums<Target, lanes, rows, steps>;
  using Merge = LaneGroups<Target, lanes, lane_groups, rows>;
  using Raw = RawRow<Element, each>;
  static constexpr int shared_bytes = Merge::bytes;

  RAPT_DEVICE static void run(const Parameters& p) {
    // Blocks that read the same keys, or neighbouring ones, start together.
    const int kv_head = p.kv_heads.remainder(Target::block_x());
    const int tiles = p.kv_heads.quotient(Target::block_x()), chunks = p.tiles.quotient(tiles);
    const int chunk = p.chunks.remainder(chunks);
    const RowTile tile =
        row_tile<config.plain>(p, p.chunks.quotient(chunks), p.tiles.remainder(tiles));
    if (tile.rows <= 0 || !tile.has_chunk(chunk)) return;

    attend(p, tile, kv_head, chunk);
    Target::block_barrier();
    for (int i = Target::thread(); i < tile.rows * lanes; i += threads) {
      float out[each];
      const RowState state = Merge::merged(i / lanes, i % lanes, out);
      const SplitKvRow row = row_at(p, kv_head, tile.first_row + i / lanes);
      const int at = i % lanes * each;
      if (tile.has_one_chunk())
        finish_row<Target, Element>(p, tile.sequence, row, at, state, out);
      else
        store_partial<Target>(p, first_partial(p, tile.sequence, row) + chunk, at, state, out);
    }
  }

 private:
  // Rows of K or V, as a lane reads them. Those of page and slot begin page · page_bytes +
  // slot · slot_bytes after `first`; without pages the slot is the key.
  struct Stream {
    const char* first;
    uint64_t page_bytes, slot_bytes;
    int at, dim;
    bool whole;
  };
  RAPT_DEVICE static Stream stream(const Parameters& p, const semantics::Sequence& sequence,
                                   const void* data, const Index (&stride)[3], int kv_head,
                                   int lane, Index dim) {
    const semantics::Place origin =
        p.call.page_table ? semantics::Place{0, 0} : semantics::key_place(p.call, sequence, 0);
    Stream stream = {
        .first = reinterpret_cast<const char*>(static_cast<const Element*>(data) +
                                               semantics::row_offset(stride, origin, kv_head)),
        .page_bytes = static_cast<uint64_t>(stride[0]) * sizeof(Element),
        .slot_bytes = static_cast<uint64_t>(stride[1]) * sizeof(Element),
        .at = lane * each,
        .dim = static_cast<int>(dim),
        .whole = whole_accesses<Element>(p.aligned, dim)};
    if (!config.plain) return stream;
    // Lanes beyond the end read the beginning: of queries they hold zeros, and what they make of
    // values is not stored.
    if (stream.at < stream.dim) stream.first += stream.at * sizeof(Element);
    stream.at = 0;
    stream.dim = each;
    stream.whole = true;
    return stream;
  }

  // A lane group takes keys `lane groups` apart. Beyond the chunk's end it reads the last key
  // again: there is no weight for it, and no memory but the chunk's is touched.
  struct Keys {
    const RowTile& tile;
    int last;         // of the chunk: its number
    Index table_row;  // of the page table
  };
  RAPT_DEVICE static int key_of(const RowTile& tile, int number) {
    return config.plain ? number : tile.numbers.key_of(number);
  }
  RAPT_DEVICE static int key_at(const Keys& keys, int first, int step) {
    const int number = first + step * lane_groups;
    return key_of(keys.tile, number < keys.last ? number : keys.last);
  }
  // Entries of the page table, not looked at yet.
  struct Pages {
    int32_t number[steps];
  };
  RAPT_DEVICE static Pages pages_of(const Parameters& p, const Keys& keys, int first) {
    Pages pages = {};
    if (!p.call.page_table) return pages;
    RAPT_UNROLL
    for (int step = 0; step < steps; ++step)
      pages.number[step] = Target::load(p.call.page_table + keys.table_row +
                                        p.page.quotient(key_at(keys, first, step)));
    return pages;
  }
  struct Slots {
    uint32_t page[steps], slot[steps];
  };
  RAPT_DEVICE static Slots slots_of(const Parameters& p, const Keys& keys, int first,
                                    const Pages& pages) {
    Slots slots = {};
    RAPT_UNROLL
    for (int step = 0; step < steps; ++step)
      slots.slot[step] = static_cast<uint32_t>(key_at(keys, first, step));
    if (!p.call.page_table) return slots;
    RAPT_UNROLL
    for (int step = 0; step < steps; ++step) {
      slots.page[step] =
          static_cast<uint32_t>(semantics::existing_page(p.call, pages.number[step]));
      slots.slot[step] =
          static_cast<uint32_t>(p.page.remainder(static_cast<int>(slots.slot[step])));
    }
    return slots;
  }
  RAPT_DEVICE static void load(const Stream& stream, const Slots& slots, Raw (&to)[steps]) {
    RAPT_UNROLL
    for (int step = 0; step < steps; ++step) {
      const char* row = stream.first + slots.page[step] * stream.page_bytes +
                        slots.slot[step] * stream.slot_bytes;
      to[step] = load_raw_row<Target, each>(reinterpret_cast<const Element*>(row), stream.at,
                                            stream.dim, stream.whole);
    }
  }

  // The row whose pairs this lane weighs.
  struct OwnRow {
    SplitKvRow row;
    Index position;
    int leading_end;         // of the chunk's keys before the gap, those it sees
    int first_key, end_key;  // of those behind it

    RAPT_DEVICE bool sees(int key) const {
      if (!config.plain && key < leading_end) return true;
      return key >= first_key && key < end_key;
    }
  };
  RAPT_DEVICE static OwnRow own_row(const Parameters& p, const RowTile& tile, int kv_head, int lane,
                                    int first, int end) {
    const int index = Pairs::row_of(lane);
    OwnRow own = {row_at(p, kv_head, tile.first_row + index), 0, 0, end, end};
    own.position = own.row.query + tile.sequence.offset;
    if (index >= tile.rows) return own;
    if constexpr (config.plain) {
      const semantics::Range seen =
          semantics::key_range(p.call.window, own.position, tile.sequence.kv_len);
      own.first_key = static_cast<int>(semantics::clamp(seen.begin, first, end));
      own.end_key = static_cast<int>(semantics::clamp(seen.end, first, end));
    } else {
      const semantics::KeyRanges seen =
          semantics::visible_keys(p.call.window, own.position, tile.sequence.kv_len);
      const int leading = tile.numbers.leading;
      const Index begin = tile.numbers.key_of(first > leading ? first : leading);
      const Index behind = end > leading ? tile.numbers.key_of(end - 1) + 1 : begin;
      own.leading_end = static_cast<int>(semantics::smaller(seen.first.end, end));
      own.first_key = static_cast<int>(semantics::clamp(seen.window.begin, begin, behind));
      own.end_key = static_cast<int>(semantics::clamp(seen.window.end, begin, behind));
    }
    return own;
  }

  // Leaves (row max, sum, out) of every lane group in shared memory.
  RAPT_DEVICE static void attend(const Parameters& p, const RowTile& tile, int kv_head, int chunk) {
    const semantics::Call& call = p.call;
    const int lane_group = Target::thread() / lanes, lane = Target::thread() % lanes,
              at = lane * each;
    const int skipped = chunk * tile.chunk_keys, left = tile.keys - skipped;
    const int first_key = tile.first_key + skipped;
    const int end_key = first_key + (left < tile.chunk_keys ? left : tile.chunk_keys);
    const Stream k_stream =
        stream(p, tile.sequence, call.k, call.k_stride, kv_head, lane, call.qk_dim);
    const Stream v_stream =
        stream(p, tile.sequence, call.v, call.v_stride, kv_head, lane, call.v_dim);

    const Keys keys = {tile, end_key - 1, tile.sequence.index * call.page_table_stride};
    const int rounds = (end_key - first_key + keys_at_once - 1) / keys_at_once;
    int first = first_key + lane_group;
    Raw k[steps], v[steps];
    Slots slots;
    Pages next_pages;
    if (rounds > 0) {
      slots = slots_of(p, keys, first, pages_of(p, keys, first));
      next_pages = pages_of(p, keys, first + keys_at_once);
      load(k_stream, slots, k);
    }

    const bool score_mod = !config.plain && has_score_mod(call);
    const float scale = score_mod ? 1.0f : call.scale * log2_e;
    float q[rows][each], out[rows][each] = {};
    RAPT_UNROLL
    for (int r = 0; r < rows; ++r) {
      const SplitKvRow row = row_at(p, kv_head, tile.first_row + (r < tile.rows ? r : 0));
      const semantics::Place place = semantics::query_place(call, tile.sequence, row.query);
      load_row<Target>(static_cast<const Element*>(call.q) +
                           semantics::row_offset(call.q_stride, place, row.head),
                       at, call.qk_dim, config.plain || k_stream.whole, q[r]);
      RAPT_UNROLL
      for (int j = 0; j < each; ++j) q[r][j] *= scale;
    }
    const OwnRow own = own_row(p, tile, kv_head, lane, first_key, end_key);
    // Of the own row; the sum is this lane's part.
    float new_max = minus_infinity;
    CompensatedSum sum = {0, 0};
    PromotedSums<Target, rows, each> promoted;
    const int first_lane = Target::lane() - lane;  // of the lane group
    const auto row_max = [&](float(&of_rows)[rows]) {
      RAPT_UNROLL
      for (int r = 0; r < rows; ++r) of_rows[r] = Target::shuffle(new_max, first_lane + r);
    };

    for (int round = 0; round < rounds; ++round) {
      load(v_stream, slots, v);
      float dots[rows * steps] = {}, exponents[Pairs::kept];
      RAPT_UNROLL
      for (int step = 0; step < steps; ++step) {
        RAPT_UNROLL
        for (int j = 0; j < each; ++j) {
          const float element = Target::to_float(k[step].at(j));
          RAPT_UNROLL
          for (int r = 0; r < rows; ++r) dots[r * steps + step] += q[r][j] * element;
        }
      }
      const int own_key = first + Pairs::first_step_of(lane) * lane_groups;
      first += keys_at_once;
      if (round + 1 < rounds) {
        slots = slots_of(p, keys, first, next_pages);
        next_pages = pages_of(p, keys, first + keys_at_once);
        load(k_stream, slots, k);
      }
      Pairs::sum(lane, dots, exponents);

      RAPT_UNROLL
      for (int i = 0; i < Pairs::kept; ++i) {
        const int key = key_of(tile, own_key + i * lane_groups);
        if (!own.sees(key))
          exponents[i] = minus_infinity;
        else if (score_mod)
          exponents[i] =
              scored_exponent<Target, Element>(call, tile.sequence.index, own.row.head,
                                               own.row.query, own.position, key, exponents[i]);
      }
      const float rescale = weigh(exponents, new_max, sum);
      if (!config.plain && call.dropout.seed) {
        const semantics::DropoutStream dropout =
            semantics::dropout_stream(call.dropout, tile.sequence.index, own.row.head);
        RAPT_UNROLL
        for (int i = 0; i < Pairs::kept; ++i) {
          const int key = key_of(tile, own_key + i * lane_groups);
          if (!semantics::keeps(dropout, own.row.query, key)) exponents[i] = 0;
        }
      }
      accumulate(first_lane, rescale, exponents, v, out);
      if ((round + 1) * steps % span_of_sums<Element> == 0) {
        float of_rows[rows];
        row_max(of_rows);
        promoted.promote(of_rows, out);
      }
    }

    float of_rows[rows];
    row_max(of_rows);
    promoted.join_out(of_rows, out);
    const float sum_of_row = Pairs::sum_of_row(sum.total());
    if (lane < rows) Merge::store_state(lane_group, lane, {new_max, sum_of_row});
    RAPT_UNROLL
    for (int r = 0; r < rows; ++r) Merge::store_out(lane_group, r, lane, out[r]);
  }

  // Exponents of the own row become weights. Returns the factor that brings what was summed so far
  // to the new row max.
  RAPT_DEVICE static float weigh(float (&exponents)[Pairs::kept], float& new_max,
                                 CompensatedSum& sum) {
    float largest = exponents[0];
    RAPT_UNROLL
    for (int i = 1; i < Pairs::kept; ++i) largest = exponents[i] > largest ? exponents[i] : largest;
    largest = Pairs::largest_of_row(largest);
    const float old = new_max;
    new_max = largest > old ? largest : old;
    const float base = finite_max(new_max);
    const float rescale = rescale_factor<Target>(old, new_max);
    float weights = 0;
    RAPT_UNROLL
    for (int i = 0; i < Pairs::kept; ++i) {
      exponents[i] = Target::exp2(exponents[i] - base);
      weights += exponents[i];
    }
    sum.scale(rescale);
    sum.add(weights);
    return rescale;
  }

  // Every lane adds all weighted values; the factors and weights of a row come from its lanes.
  RAPT_DEVICE static void accumulate(int first_lane, float rescale,
                                     const float (&weights)[Pairs::kept], const Raw (&v)[steps],
                                     float (&out)[rows][each]) {
    float factor[rows];
    bool grew = false;
    RAPT_UNROLL
    for (int r = 0; r < rows; ++r) {
      factor[r] = Target::shuffle(rescale, first_lane + r);
      grew = grew || factor[r] != 1;
    }
    if (grew) {
      RAPT_UNROLL
      for (int r = 0; r < rows; ++r) {
        RAPT_UNROLL
        for (int j = 0; j < each; ++j) out[r][j] *= factor[r];
      }
    }
    RAPT_UNROLL
    for (int step = 0; step < steps; ++step) {
      float weight[rows];
      RAPT_UNROLL
      for (int r = 0; r < rows; ++r)
        weight[r] =
            Target::shuffle(weights[step % Pairs::kept], first_lane + Pairs::holder(r, step));
      RAPT_UNROLL
      for (int j = 0; j < each; ++j) {
        const float element = Target::to_float(v[step].at(j));
        RAPT_UNROLL
        for (int r = 0; r < rows; ++r) out[r][j] += weight[r] * element;
      }
    }
  }
};

}  // namespace rapt::gpu
