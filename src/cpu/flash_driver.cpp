// The flash driver: which rows meet which keys.
//
// A block is some queries of one head; a tile is some keys, counted from key 0; a run is the part
// of a tile that lies among the first keys beside a window, or beyond them. For one kv head an item
// of work takes several blocks (of the query heads of the group, and of neighbouring queries):
//
//   for each run of keys that some block sees:
//     pack its K and V                              once for all blocks of the item
//     for each block that sees some of it:
//       scores → (caps, biases, masks) → weights, and out = out · rescale + weights · V
//
// Wide heads would not fit the cache that way. Then an item is one block, and K, Q and V are packed
// and multiplied `wide_part` dims at a time.
//
// A row's bits depend on the block and runs alone, so neither on the number of threads, nor on
// how blocks were dealt into items. Where they must not depend on the block either, runs begin at
// their tile's first key: what comes before has weights of 0, so that sums over keys are cut in the
// same places for every row. Where a weight of 0 meets a value, it is the key's own if anybody in
// the sequence sees the key, and else 0: a value may be NaN, and whom that reaches must not depend
// on the item. A row group computes only the keys that its rows see: a causal problem costs half,
// and keys that nobody may see are never touched.
#include "src/cpu/flash_driver.hpp"

#include <algorithm>
#include <cmath>

#include "src/core/call.hpp"
#include "src/core/parallel.hpp"
#include "src/core/text.hpp"
#include "src/cpu/dropout.hpp"
#include "src/cpu/long_sums.hpp"
#include "src/cpu/row_operations.hpp"

namespace rapt {
namespace {

using semantics::divided_up;
using semantics::Index;
using semantics::KeyRanges;
using semantics::Range;
using semantics::rounded_up;

// An item's packed queries and sums. They are read once a tile, so that the last cache will do.
constexpr Index most_item_bytes = 4 << 20;
constexpr Index most_blocks = 64;
constexpr Index wide_part = 512;
constexpr Index wide_keys = 128;  // of a tile, at most
constexpr Index long_span = 32;   // tiles whose sums are added in f32

FlashTiles tiles_of(const Config& config) { return {config.at("rows"), config.at("keys")}; }

// How the blocks of a kv head are dealt into items: as many to each as the cache holds, so that few
// items pack the same keys, but enough items to keep all threads busy to the end.
struct Items {
  Index blocks_each;
  Index per_head;  // kv head of a sequence; an upper bound
  Index count;

  // Of one run. `most`: that an item may have.
  Items(Index batch, Index kv_heads, Index q_len, Index rows, Index group, Index threads,
        Index most) {
    const Index blocks = divided_up(std::max<Index>(q_len, 1), rows) * group;
    const Index heads = batch * kv_heads;
    const Index wanted = divided_up(4 * threads, std::max<Index>(heads, 1));
    blocks_each = std::clamp<Index>(blocks / wanted, 1, most);
    per_head = divided_up(blocks, blocks_each);
    count = heads * per_head;
  }
};

// How the work is cut, and what scratch memory a thread needs for it.
struct Blocking {
  FlashTiles tiles;
  bool wide;               // heads are worked on in parts
  bool whole_tiles;        // runs begin at their tile's first key
  Index qk_part, v_part;   // dims that are packed at a time
  Index group;             // query heads of a kv head
  Index padded_rows;       // of a block: whole row groups
  Index out_stride;        // v_dim, padded
  Index most_blocks_each;  // of an item
  bool has_long_rows;
  // Offsets into a thread's scratch memory, and its size.
  Index queries, keys, values, engine_scratch, out, long_sums, states, ranges, pointers, parts,
      zeros, scratch_bytes;
  Index zeros_bytes;    // a key, or its value, of zeros
  Index queries_bytes;  // of a block

  Blocking(const Problem& p, const Device& device, const Engine& engine, FlashTiles given)
      : tiles(given) {
    wide = engine.set_scores && std::max(p.qk_dim, p.v_dim) > wide_part;
    whole_tiles = p.row_invariant;
    zeros_bytes = whole_tiles || engine.value_step > 1
                      ? std::max(p.qk_dim, p.v_dim) * size_in_bytes(p.dtype)
                      : 0;
    qk_part = wide ? std::min(p.qk_dim, wide_part) : p.qk_dim;
    v_part = wide ? std::min(p.v_dim, wide_part) : p.v_dim;
    if (wide) tiles.keys = std::min(tiles.keys, wide_keys);
    tiles.rows = std::min(tiles.rows, std::max<Index>(p.q_len, 1));
    tiles.keys = std::min(tiles.keys, rounded_up(std::max<Index>(p.kv_len, 1), engine.panel));
    tiles.keys = rounded_up(tiles.keys, engine.panel);
    padded_rows = rounded_up(tiles.rows, engine.group_rows);
    group = p.heads / p.kv_heads;
    out_stride = rounded_up(p.v_dim, engine.panel);
    queries_bytes = rounded_up(engine.queries_bytes(tiles.rows, qk_part), 64);
    has_long_rows = p.kv_len > long_span * tiles.keys;
    const Index long_bytes = has_long_rows ? LongSums::bytes(padded_rows, out_stride) : 0;
    const Index block_bytes = queries_bytes + padded_rows * out_stride * 4;
    const Index cached =
        wide ? 1 : std::clamp<Index>(most_item_bytes / block_bytes, 1, most_blocks);
    most_blocks_each =
        Items(p.batch, p.kv_heads, p.q_len, tiles.rows, group, device.threads, cached).blocks_each;

    Index end = 0;
    const auto take = [&](Index bytes) {
      const Index begin = end;
      end += rounded_up(bytes, 64);
      return begin;
    };
    queries = take(most_blocks_each * queries_bytes);
    keys = take(engine.keys_bytes(tiles.keys, qk_part));
    values = take(engine.values_bytes(tiles.keys, v_part));
    engine_scratch = take(engine.scratch_bytes(tiles.rows, tiles.keys));
    out = take(most_blocks_each * padded_rows * out_stride * 4);
    long_sums = take(most_blocks_each * long_bytes);
    states = take((3 * most_blocks_each + 1) * padded_rows * 4);
    ranges = take((tiles.rows + padded_rows / engine.group_rows) * Index{sizeof(Range)});
    pointers = take(2 * tiles.keys * Index{sizeof(void*)});
    parts = take(std::max(tiles.keys, tiles.rows) * Index{sizeof(void*)});
    zeros = take(zeros_bytes);
    scratch_bytes = end;
  }

  // A batch with less in it than was planned for has no larger items.
  Items items(Index batch, Index kv_heads, Index q_len, Index threads) const {
    return {batch, kv_heads, q_len, tiles.rows, group, threads, most_blocks_each};
  }
};

// Queries of one head.
struct Block {
  Index head, first_query, rows;
  KeyRanges keys;  // that some of them see
  void* queries;
  RowSums sums;
  LongSums earlier;
  semantics::DropoutStream dropout;
};

class Flash {
 public:
  Flash(const Task& task, const semantics::Call& call, const Launch& launch, const Engine& engine,
        const Blocking& shape)
      : problem_(task.problem),
        call_(call),
        engine_(engine),
        rows_(row_operations()),
        shape_(shape),
        items_(shape.items(call.batch, call.kv_heads, call.q_len, task.device.threads)),
        workspace_(launch.workspace.data()),
        element_(size_in_bytes(task.problem.dtype)),
        out_element_(size_in_bytes(task.problem.out_dtype)),
        scoring_(has_scoring(call_)),
        kept_scale_(semantics::kept_scale<float>(call_.dropout)) {}

  Index items() const { return items_.count; }

  void run_item(Index slot, Index item) const {
    const Index pair = item / items_.per_head;
    const semantics::Sequence sequence = semantics::sequence(call_, pair / call_.kv_heads);
    const Index kv_head = pair % call_.kv_heads;
    std::byte* scratch = workspace_ + slot * shape_.scratch_bytes;

    Block blocks[most_blocks];
    const Index count = take_blocks(sequence, kv_head, item % items_.per_head, scratch, blocks);
    if (count == 0) return;
    const KeyRanges keys = keys_of(blocks, count);
    const KeyRanges seen_by_some = semantics::visible_to_some(
        call_.window, sequence.offset, sequence.offset + sequence.q_len - 1, sequence.kv_len);
    const Index span = long_span * shape_.tiles.keys;
    engine_.enter();
    std::fill_n(scratch + shape_.zeros, shape_.zeros_bytes, std::byte{0});
    for (Index i = 0; i < count; ++i) start(sequence, blocks[i], scratch);
    Range run = semantics::next_keys(keys, 0, shape_.tiles.keys);
    while (!semantics::is_empty(run)) {
      const Index tile = run.begin / shape_.tiles.keys * shape_.tiles.keys;
      const Range inside = from_first_key({run.begin - tile, run.end - tile});
      const Range values = from_first_key(whole_steps({run.begin - tile, run.end - tile}));
      point_at_keys(sequence, kv_head, {tile, run}, scratch);
      point_at_values(sequence, kv_head, tile, values, seen_by_some, scratch);
      if (!shape_.wide) {
        pack_keys(inside, {0, call_.qk_dim}, scratch);
        pack_values(values, {0, call_.v_dim}, scratch);
      }
      for (Index i = 0; i < count; ++i) meet(sequence, blocks[i], {tile, run}, scratch);
      const Range next = semantics::next_keys(keys, run.end, shape_.tiles.keys);
      if (shape_.has_long_rows && next.begin / span != run.begin / span)
        for (Index i = 0; i < count; ++i) blocks[i].earlier.set_aside(blocks[i].sums);
      run = next;
    }
    engine_.leave();
    for (Index i = 0; i < count; ++i) finish(sequence, blocks[i]);
  }

 private:
  // A run of keys, and the first key of the tile that it lies in.
  struct Run {
    Index tile;
    Range keys;
  };

  // Keys of a tile that are packed and multiplied, where these are seen.
  Range from_first_key(Range seen) const {
    return {shape_.whole_tiles && !semantics::is_empty(seen) ? 0 : seen.begin, seen.end};
  }

  // The keys of a tile whose values meet weights, where some have weights.
  Range whole_steps(Range keys) const {
    const Index step = engine_.value_step;
    return {keys.begin / step * step, rounded_up(keys.end, step)};
  }

  // The keys of a run that are among others, counted from the tile's first key.
  static Range within(const KeyRanges& keys, const Run& run) {
    const Range seen = semantics::within(keys, run.keys);
    return {seen.begin - run.tile, seen.end - run.tile};
  }

  // The keys that some block sees.
  static KeyRanges keys_of(const Block* blocks, Index count) {
    KeyRanges keys = {};
    for (Index i = 0; i < count; ++i) {
      keys.first = around(keys.first, blocks[i].keys.first);
      keys.window = around(keys.window, blocks[i].keys.window);
    }
    return keys;
  }
  static Range around(Range one, Range other) {
    if (semantics::is_empty(one)) return other;
    if (semantics::is_empty(other)) return one;
    return {std::min(one.begin, other.begin), std::max(one.end, other.end)};
  }

  // The last queries come first: under a causal mask they see most, and a thread that gets one of
  // them late would keep the others waiting.
  Index take_blocks(const semantics::Sequence& sequence, Index kv_head, Index item,
                    std::byte* scratch, Block* blocks) const {
    const Index total = divided_up(sequence.q_len, shape_.tiles.rows) * shape_.group;
    const Index first = item * items_.blocks_each;
    const Index count = std::clamp<Index>(total - first, 0, items_.blocks_each);
    auto* states = reinterpret_cast<float*>(scratch + shape_.states);
    for (Index i = 0; i < count; ++i) {
      const Index unit = total - 1 - (first + i);
      Block& block = blocks[i];
      block.head = kv_head * shape_.group + unit % shape_.group;
      block.first_query = unit / shape_.group * shape_.tiles.rows;
      block.rows = std::min(shape_.tiles.rows, sequence.q_len - block.first_query);
      const Index position = block.first_query + sequence.offset;
      block.keys = semantics::visible_to_some(call_.window, position, position + block.rows - 1,
                                              sequence.kv_len);
      block.dropout = semantics::dropout_stream(call_.dropout, sequence.index, block.head);
      block.queries = scratch + shape_.queries + i * shape_.queries_bytes;
      block.sums = {
          .rows = block.rows,
          .out_stride = shape_.out_stride,
          .reference = states + (3 * i + 1) * shape_.padded_rows,
          .row_sum = states + (3 * i + 2) * shape_.padded_rows,
          .divisor = states + (3 * i + (engine_.rounds_weights ? 3 : 2)) * shape_.padded_rows,
          .out = reinterpret_cast<float*>(scratch + shape_.out) +
                 i * shape_.padded_rows * shape_.out_stride};
      block.earlier = {reinterpret_cast<double*>(scratch + shape_.long_sums) +
                       i * LongSums::bytes(shape_.padded_rows, shape_.out_stride) / 8};
    }
    return count;
  }

  void start(const semantics::Sequence& sequence, const Block& block, std::byte* scratch) const {
    if (!shape_.wide) pack_queries(sequence, block, {0, call_.qk_dim}, scratch);
    std::fill_n(block.sums.reference, block.rows, minus_infinity);
    std::fill_n(block.sums.row_sum, block.rows, 0.0f);
    std::fill_n(block.sums.divisor, block.rows, 0.0f);
    if (!sets_out(block)) std::fill_n(block.sums.out, block.rows * shape_.out_stride, 0.0f);
  }

  // Some dims of a block's queries.
  void pack_queries(const semantics::Sequence& sequence, const Block& block, Range dims,
                    std::byte* scratch) const {
    auto** pointers = reinterpret_cast<const void**>(scratch + shape_.parts);
    for (Index row = 0; row < block.rows; ++row) {
      const auto place = semantics::query_place(call_, sequence, block.first_query + row);
      const Index at = semantics::row_offset(call_.q_stride, place, block.head) + dims.begin;
      pointers[row] = static_cast<const std::byte*>(call_.q) + at * element_;
    }
    engine_.pack_queries(problem_.dtype, pointers, block.rows, dims.end - dims.begin,
                         block.queries);
  }

  // Where the keys of a run begin, for the packing functions; before them in the tile stand zeros.
  void point_at_keys(const semantics::Sequence& sequence, Index kv_head, const Run& run,
                     std::byte* scratch) const {
    const std::byte** rows = key_rows(scratch);
    if (shape_.whole_tiles) std::fill_n(rows, run.keys.begin - run.tile, scratch + shape_.zeros);
    for (Index key = run.keys.begin; key < run.keys.end; ++key) {
      const auto place = semantics::key_place(call_, sequence, key);
      rows[key - run.tile] = static_cast<const std::byte*>(call_.k) +
                             semantics::row_offset(call_.k_stride, place, kv_head) * element_;
    }
  }
  // The same of some values of a tile; zeros for keys that nobody sees.
  void point_at_values(const semantics::Sequence& sequence, Index kv_head, Index tile, Range values,
                       const KeyRanges& seen_by_some, std::byte* scratch) const {
    const std::byte** rows = key_rows(scratch) + shape_.tiles.keys;
    for (Index i = values.begin; i < values.end; ++i) {
      rows[i] = scratch + shape_.zeros;
      if (!semantics::holds(seen_by_some, tile + i)) continue;
      const auto place = semantics::key_place(call_, sequence, tile + i);
      rows[i] = static_cast<const std::byte*>(call_.v) +
                semantics::row_offset(call_.v_stride, place, kv_head) * element_;
    }
  }
  const std::byte** key_rows(std::byte* scratch) const {
    return reinterpret_cast<const std::byte**>(scratch + shape_.pointers);
  }

  // The rows of a tile from the first of some dims on.
  const void* const* part_of(Range keys, Index first_dim, Index first_pointer,
                             std::byte* scratch) const {
    const auto* const* rows =
        reinterpret_cast<const std::byte* const*>(scratch + shape_.pointers) + first_pointer;
    auto** parts = reinterpret_cast<const void**>(scratch + shape_.parts);
    for (Index key = keys.begin; key < keys.end; ++key)
      parts[key] = rows[key] + first_dim * element_;
    return parts;
  }
  void pack_keys(Range keys, Range dims, std::byte* scratch) const {
    engine_.pack_keys(problem_.dtype, part_of(keys, dims.begin, 0, scratch), keys,
                      dims.end - dims.begin, scratch + shape_.keys);
  }
  void pack_values(Range keys, Range dims, std::byte* scratch) const {
    engine_.pack_values(problem_.dtype, part_of(keys, dims.begin, shape_.tiles.keys, scratch), keys,
                        shape_.tiles.keys, dims.end - dims.begin, scratch + shape_.values);
  }

  // One block against one run of keys.
  void meet(const semantics::Sequence& sequence, const Block& block, const Run& run,
            std::byte* scratch) const {
    const Range seen = from_first_key(within(block.keys, run));
    if (semantics::is_empty(seen)) return;
    auto* row_keys = reinterpret_cast<Range*>(scratch + shape_.ranges);
    Range* group_keys = row_keys + shape_.tiles.rows;
    find_ranges(sequence, block, run, row_keys, group_keys);

    BlockTile t = {};
    t.rows = block.rows;
    t.qk_dim = call_.qk_dim;
    t.v_dim = call_.v_dim;
    t.tile_keys = shape_.tiles.keys;
    t.row_keys = row_keys;
    t.group_keys = group_keys;
    t.queries = block.queries;
    t.keys = scratch + shape_.keys;
    t.values = scratch + shape_.values;
    t.scratch = scratch + shape_.engine_scratch;
    t.score_scale = scoring_ ? log2_e : call_.scale * log2_e;
    t.reference = block.sums.reference;
    t.row_sum = block.sums.row_sum;
    t.divisor = block.sums.divisor;
    t.rescale = reinterpret_cast<float*>(scratch + shape_.states);
    t.out = block.sums.out;
    t.out_stride = shape_.out_stride;

    const Meeting meeting = {*this, sequence, block, run};
    t.context = &meeting;
    t.score_row = scoring_ ? score_row : nullptr;
    t.drop_row = block.dropout.dropped > 0 ? drop_row : nullptr;
    if (shape_.wide)
      attend_wide(meeting, seen, t, scratch);
    else
      engine_.attend(t);
  }

  // What each row, and each group of rows, sees of a run.
  void find_ranges(const semantics::Sequence& sequence, const Block& block, const Run& run,
                   Range* row_keys, Range* group_keys) const {
    const Index position = block.first_query + sequence.offset;
    const Index groups = divided_up(block.rows, engine_.group_rows);
    const Range some = within(block.keys, run);
    const Range all = within(semantics::visible_to_all(call_.window, position,
                                                       position + block.rows - 1, sequence.kv_len),
                             run);
    if (some.begin == all.begin && some.end == all.end) {
      std::fill_n(row_keys, block.rows, all);
      std::fill_n(group_keys, groups, from_first_key(all));
      return;
    }
    std::fill_n(group_keys, groups, Range{0, 0});
    for (Index row = 0; row < block.rows; ++row) {
      const Range keys =
          within(semantics::visible_keys(call_.window, position + row, sequence.kv_len), run);
      row_keys[row] = keys;
      Range& group = group_keys[row / engine_.group_rows];
      group = around(group, from_first_key(keys));
    }
  }

  // What score_row and drop_row have to know of the block and run.
  struct Meeting {
    const Flash& flash;
    const semantics::Sequence& sequence;
    const Block& block;
    const Run& run;
  };

  // Part by part of the dims. `seen`: keys that some row of the block sees.
  void attend_wide(const Meeting& meeting, Range seen, BlockTile t, std::byte* scratch) const {
    for (Index dim = 0; dim < call_.qk_dim; dim += shape_.qk_part) {
      const Range dims = {dim, std::min(dim + shape_.qk_part, call_.qk_dim)};
      pack_queries(meeting.sequence, meeting.block, dims, scratch);
      pack_keys(seen, dims, scratch);
      t.qk_dim = dims.end - dims.begin;
      if (dim == 0)
        engine_.set_scores(t);
      else
        engine_.add_scores(t);
    }
    engine_.weigh(t);
    const Range all = semantics::span_of(meeting.block.keys);
    for (Index dim = 0; dim < call_.v_dim; dim += shape_.v_part) {
      const Range dims = {dim, std::min(dim + shape_.v_part, call_.v_dim)};
      pack_values(whole_steps(seen), dims, scratch);
      t.v_dim = dims.end - dims.begin;
      t.out = meeting.block.sums.out + dim;
      if (sets_out(meeting.block) && meeting.run.keys.begin <= all.begin)
        engine_.set_out(t);
      else
        engine_.add_out(t);
      if (sets_out(meeting.block) && meeting.run.keys.end >= all.end)
        store_out(meeting.sequence, meeting.block, dims);
    }
  }

  static void score_row(const BlockTile& t, Index row, Range keys, float* dots) {
    const auto& [flash, sequence, block, run] = *static_cast<const Meeting*>(t.context);
    flash.rows_.score(row_scoring(flash.call_, flash.problem_.dtype, sequence, block.head,
                                  block.first_query + row, run.tile + keys.begin),
                      dots, keys.end - keys.begin);
  }

  static void drop_row(const BlockTile& t, Index row, Range keys, float* weights) {
    const auto& [flash, sequence, block, run] = *static_cast<const Meeting*>(t.context);
    apply_dropout(block.dropout, block.first_query + row,
                  {run.tile + keys.begin, run.tile + keys.end}, 1, weights);
  }

  // Whether the first run that a block meets sets its out, and the last one stores it.
  bool sets_out(const Block& block) const {
    return shape_.wide && !shape_.has_long_rows && !shape_.whole_tiles &&
           !semantics::is_empty(semantics::span_of(block.keys));
  }

  void store_out(const semantics::Sequence& sequence, const Block& block, Range dims) const {
    for (Index row = 0; row < block.rows; ++row) {
      const auto place = semantics::query_place(call_, sequence, block.first_query + row);
      const Index at = semantics::row_offset(call_.out_stride, place, block.head) + dims.begin;
      const WithSink all =
          with_sink(block.sums.state_of_out(row), state_of_sink(call_, block.head));
      rows_.store(problem_.out_dtype, block.sums.out + row * shape_.out_stride + dims.begin,
                  kept_scale_ * all.factor * inverse_sum(all.state), dims.end - dims.begin,
                  static_cast<std::byte*>(call_.out) + at * out_element_);
    }
  }

  void finish(const semantics::Sequence& sequence, const Block& block) const {
    block.earlier.join(block.sums);
    if (!sets_out(block)) store_out(sequence, block, {0, call_.v_dim});
    if (!call_.lse) return;
    for (Index row = 0; row < block.rows; ++row) {
      const auto place = semantics::query_place(call_, sequence, block.first_query + row);
      call_.lse[semantics::lse_offset(call_, place, block.head)] =
          natural_log(with_sink(block.sums.state(row), state_of_sink(call_, block.head)).state);
    }
  }

  const Problem& problem_;
  const semantics::Call& call_;
  const Engine& engine_;
  const RowOperations& rows_;
  const Blocking& shape_;
  const Items items_;
  std::byte* workspace_;
  Index element_, out_element_;
  bool scoring_;
  float kept_scale_;
};

Items planned_items(const Problem& p, const Device& device, const Blocking& shape) {
  return shape.items(p.batch, p.kv_heads, p.q_len, device.threads);
}

Index slots_of(const Problem& p, const Device& device, const Blocking& shape) {
  return std::min<Index>(device.threads, planned_items(p, device, shape).count);
}

}  // namespace

Estimate flash_estimate(const Task& task, const Engine& engine, FlashRates rates) {
  const Problem& p = task.problem;
  const Blocking shape(p, task.device, engine, tiles_of(task.config));
  const Items dealt = planned_items(p, task.device, shape);
  const double threads = task.device.threads, items = double(dealt.count);
  const double busy = items > 0 ? items / (std::ceil(items / threads) * threads) : 1;
  const double rows = double(std::max<Index>(p.q_len, 1));
  const double group = double(engine.group_rows);
  const double padding = std::ceil(rows / group) * group / rows;
  const double dims = double(p.qk_dim + p.v_dim), pairs = p.flops() / (2 * dims);
  const double keys = std::max(double(p.total_kv), double(p.batch) * double(engine.panel));
  const double packed = keys * double(p.kv_heads) * double(dealt.per_head) * dims;
  const double vector_flops =
      pairs * rates.flops_per_weight + packed * rates.flops_per_packed_element;
  const double compute =
      p.flops() * padding / rates.product_flops + vector_flops / task.device.nominal.f32_flops;
  // Packing waits for memory before the products begin, so that both times add up.
  const double memory = p.bytes() / task.device.nominal.read_bandwidth;
  const double overhead = 3e-6 + 1e-6 * items / threads;
  return {compute / busy + memory + overhead, compute / busy > memory ? "compute" : "memory"};
}

Support flash_support(const Problem& problem, const Device& device, const Engine& engine,
                      FlashTiles largest) {
  const Blocking shape(problem, device, engine, largest);
  const double slots = double(slots_of(problem, device, shape));
  const double bytes = slots * double(shape.scratch_bytes), limit = device.nominal.memory_bytes;
  if (limit == 0 || bytes <= limit) return Support::yes();
  return Support::no(text("its tiles would need ", human_bytes(bytes), "; this machine has ",
                          human_bytes(limit), " of memory"));
}

std::size_t flash_workspace(const Task& task, const Engine& engine) {
  const Blocking shape(task.problem, task.device, engine, tiles_of(task.config));
  return static_cast<std::size_t>(slots_of(task.problem, task.device, shape) * shape.scratch_bytes);
}

std::unique_ptr<const Prepared> prepare_flash(const Task& task, const Engine& engine) {
  const Blocking shape(task.problem, task.device, engine, tiles_of(task.config));
  return prepared([task, &engine, shape](const semantics::Call& call, const Launch& launch) {
    const Flash flash(task, call, launch, engine, shape);
    parallel_for_slots(*task.executor, task.device.threads, flash.items(),
                       [&](Index slot, Index item) { flash.run_item(slot, item); });
  });
}

}  // namespace rapt
