// cpu.split_kv: for few queries. The keys of a sequence are cut into chunks that are worked on at
// the same time, and the partial results (m, l, O) are merged.
//
// The queries of all heads of a group meet a kv head together, as rows: K and V are read once, from
// contiguous or paged memory, in their storage type. Where the kv heads of a key lie side by side
// (bshd), an item takes several of them, tile by tile, so that memory is read page after page. How
// a sequence is cut depends on its own length alone, so that a row's bits depend neither on the
// number of threads nor on the batch.
//
// Workspace: items before each sequence (where lengths differ); partial results (rows of all
// sequences and heads, chunks): O (v_dim), m, l; scratch per thread. In a chunk of many tiles sums
// are set aside as in flash.
#include <algorithm>

#include "src/core/call.hpp"
#include "src/core/layout.hpp"
#include "src/core/parallel.hpp"
#include "src/core/text.hpp"
#include "src/cpu/dropout.hpp"
#include "src/cpu/kernels.hpp"
#include "src/cpu/long_sums.hpp"
#include "src/cpu/row_operations.hpp"
#include "src/cpu/stream_operations.hpp"

namespace rapt {
namespace {

using semantics::divided_up;
using semantics::Index;
using semantics::KeyRanges;
using semantics::Range;
using semantics::rounded_up;

constexpr Index most_rows = 64;              // of an item
constexpr Index tile_keys = 64;              // K and V of a tile stay in the first cache
constexpr Index most_chunks = 64;            // of a sequence
constexpr Index long_span = 16 * tile_keys;  // keys whose sums are added in f32

// `least` keys, or so many that there are at most most_chunks.
Index chunk_keys(Index kv_len, Index least) {
  return least * std::max<Index>(1, divided_up(kv_len, least * most_chunks));
}
Index chunks_of(Index kv_len, Index least) { return divided_up(kv_len, chunk_keys(kv_len, least)); }
// Of a sequence of up to kv_len keys: a shorter one may have more, smaller ones.
Index chunks_up_to(Index kv_len, Index least) {
  return std::min(divided_up(kv_len, least), most_chunks);
}

struct Shape {
  Index least_chunk;     // keys
  Index group, rows;     // rows of a kv head: queries times the heads of its group
  Index heads;           // kv heads of an item, at most
  Index chunks;          // of a sequence, at most
  bool side_by_side;     // kv heads
  Index partial_stride;  // floats of a partial result
  Index out_stride;
  Index prefix_bytes, partial_bytes, scratch_bytes;   // scratch: of one thread
  Index q, scores, out, references, sums, long_sums;  // offsets into scratch, in floats

  Shape(const Problem& p, std::int32_t threads, Index least_keys) : least_chunk(least_keys) {
    const auto floats = [](Index count) { return rounded_up(count, 16); };
    group = p.heads / p.kv_heads;
    rows = std::min(most_rows, std::max<Index>(1, p.q_len * group));
    chunks = chunks_up_to(p.kv_len, least_chunk);
    side_by_side = p.kv_heads > 1 && p.k[2] < p.k[1] && p.v[2] < p.v[1];
    heads = p.kv_heads;
    heads = heads_for(p.batch, p.kv_heads, p.kv_len, threads);
    const Index total_rows = (p.varlen ? p.total_q : p.batch * p.q_len) * p.heads;
    partial_stride = floats(p.v_dim + 2);
    out_stride = rounded_up(p.v_dim, stream_operations().lanes);
    q = 0;
    scores = q + floats(heads * rows * p.qk_dim);
    out = scores + rows * tile_keys;
    references = out + floats(heads * rows * out_stride);
    sums = references + floats(heads * rows);
    long_sums = sums + floats(heads * rows);
    scratch_bytes = long_sums * 4;
    if (has_long_chunks(p.kv_len)) scratch_bytes += LongSums::bytes(heads * rows, out_stride);
    scratch_bytes = rounded_up(scratch_bytes, 64);
    prefix_bytes = p.varlen || p.lengths ? rounded_up((p.batch + 1) * 8, 64) : 0;
    partial_bytes = chunks > 1 ? total_rows * chunks * partial_stride * 4 : 0;
  }

  // Kv heads of an item, where so many sequences are shared by the threads.
  Index heads_for(Index batch, Index kv_heads, Index kv_len, Index threads) const {
    const Index fair_share = batch * kv_heads * chunks_of(kv_len, least_chunk) / (8 * threads);
    return side_by_side ? std::clamp<Index>(std::min(most_rows / rows, fair_share), 1, heads) : 1;
  }

  // Of a sequence of so many keys.
  bool has_long_chunks(Index kv_len) const { return chunk_keys(kv_len, least_chunk) > long_span; }
};

// Where the keys and values of a tile begin.
struct Pointers {
  const void *keys[tile_keys], *values[tile_keys];
};

class SplitKv {
 public:
  SplitKv(const Task& task, const semantics::Call& call, const Launch& launch, const Shape& shape)
      : problem_(task.problem),
        call_(call),
        executor_(*task.executor),
        threads_(task.device.threads),
        stream_(stream_operations()),
        rows_(row_operations()),
        shape_(shape),
        heads_(shape.heads_for(call.batch, call.kv_heads, call.kv_len, task.device.threads)),
        total_rows_((call.q_starts ? call.total_q : call.batch * call.q_len) * call.heads),
        prefix_(reinterpret_cast<Index*>(launch.workspace.data())),
        partials_(reinterpret_cast<float*>(launch.workspace.data() + shape_.prefix_bytes)),
        scratch_(launch.workspace.data() + shape_.prefix_bytes + shape_.partial_bytes),
        element_(size_in_bytes(task.problem.dtype)),
        out_element_(size_in_bytes(task.problem.out_dtype)) {}

  void run() {
    const Index items = count_items();
    parallel_for_slots(executor_, threads_, items,
                       [&](Index slot, Index item) { run_item(slot, item); });
    if (shape_.chunks == 1) return;
    parallel_for_slots(executor_, threads_, call_.batch * call_.heads,
                       [&](Index, Index item) { merge(item / call_.heads, item % call_.heads); });
  }

 private:
  Index row_blocks(const semantics::Sequence& s) const {
    return divided_up(s.q_len * shape_.group, shape_.rows);
  }
  // A sequence without keys still has rows to write.
  Index chunks(const semantics::Sequence& s) const {
    return std::max<Index>(1, chunks_of(s.kv_len, shape_.least_chunk));
  }
  Index items_of(const semantics::Sequence& s) const {
    return divided_up(call_.kv_heads, heads_) * row_blocks(s) * chunks(s);
  }

  Index count_items() {
    if (shape_.prefix_bytes == 0) return call_.batch * items_of(semantics::sequence(call_, 0));
    prefix_[0] = 0;
    for (Index b = 0; b < call_.batch; ++b)
      prefix_[b + 1] = prefix_[b] + items_of(semantics::sequence(call_, b));
    return prefix_[call_.batch];
  }

  // Which sequence an item belongs to; leaves the item's number within it.
  semantics::Sequence sequence_of(Index& item) const {
    if (shape_.prefix_bytes == 0) {
      const Index each = items_of(semantics::sequence(call_, 0)), b = item / each;
      item %= each;
      return semantics::sequence(call_, b);
    }
    const Index b = std::upper_bound(prefix_, prefix_ + call_.batch + 1, item) - prefix_ - 1;
    item -= prefix_[b];
    return semantics::sequence(call_, b);
  }

  void run_item(Index slot, Index item) const {
    Item work = {};
    work.sequence = sequence_of(item);
    const Index count = chunks(work.sequence), chunk = item % count;
    const Index head_blocks = divided_up(call_.kv_heads, heads_);
    work.first_head = item / count % head_blocks * heads_;
    work.heads = std::min(heads_, call_.kv_heads - work.first_head);
    work.first_row = item / count / head_blocks * shape_.rows;
    work.rows = std::min(shape_.rows, work.sequence.q_len * shape_.group - work.first_row);
    const Index keys = chunk_keys(work.sequence.kv_len, shape_.least_chunk);
    work.keys = {chunk * keys, std::min(work.sequence.kv_len, (chunk + 1) * keys)};

    auto* floats = reinterpret_cast<float*>(scratch_ + slot * shape_.scratch_bytes);
    attend(work, floats);
    for (Index i = 0; i < work.heads * work.rows; ++i) {
      const Row row = row_of(work, i);
      const RowState state = {floats[shape_.references + i], floats[shape_.sums + i]};
      float* out = floats + shape_.out + i * shape_.out_stride;
      if (count == 1)
        finish(row, state, out);
      else
        store_partial(row, chunk, state, out);
    }
  }

  // Some rows of some kv heads of one sequence, against the keys of one chunk.
  struct Item {
    semantics::Sequence sequence;
    Index first_head, heads, first_row, rows;  // heads: kv heads
    Range keys;
  };

  // One query of one head.
  struct Row {
    Index head, query;
    semantics::Place place;
  };
  // The rows of an item are numbered through, kv head by kv head.
  Row row_of(const Item& item, Index index) const {
    const Index row = item.first_row + index % item.rows, query = row / shape_.group;
    const Index kv_head = item.first_head + index / item.rows;
    return {kv_head * shape_.group + row % shape_.group, query,
            semantics::query_place(call_, item.sequence, query)};
  }

  // Fills out, references and sums of the scratch memory.
  void attend(const Item& item, float* floats) const {
    float* q = floats + shape_.q;
    const RowSums sums = {.rows = item.heads * item.rows,
                          .out_stride = shape_.out_stride,
                          .reference = floats + shape_.references,
                          .row_sum = floats + shape_.sums,
                          .divisor = floats + shape_.sums,
                          .out = floats + shape_.out};
    LongSums earlier = {reinterpret_cast<double*>(floats + shape_.long_sums)};
    std::fill_n(sums.reference, sums.rows, minus_infinity);
    std::fill_n(sums.row_sum, sums.rows, 0.0f);
    std::fill_n(sums.out, sums.rows * sums.out_stride, 0.0f);

    const Index first = item.first_row / shape_.group + item.sequence.offset;
    const Index last = (item.first_row + item.rows - 1) / shape_.group + item.sequence.offset;
    KeyRanges keys = semantics::visible_to_some(call_.window, first, last, item.sequence.kv_len);
    keys.first = semantics::within(keys.first, item.keys);
    keys.window = semantics::within(keys.window, item.keys);
    Range tile = semantics::next_keys(keys, item.keys.begin, tile_keys);
    if (semantics::is_empty(tile)) return;
    for (Index i = 0; i < sums.rows; ++i) {
      const Row row = row_of(item, i);
      stream_.widen(problem_.dtype,
                    static_cast<const std::byte*>(call_.q) +
                        semantics::row_offset(call_.q_stride, row.place, row.head) * element_,
                    call_.qk_dim, q + i * call_.qk_dim);
    }

    // While the values of a tile are read, the keys that come next are fetched: those of the next
    // head, after the last head those of the next tile.
    const bool is_long = shape_.has_long_chunks(item.sequence.kv_len);
    Pointers pointers[2];
    Index turn = 0;
    point(item.sequence, tile, item.first_head, pointers[turn]);
    while (!semantics::is_empty(tile)) {
      for (Index head = 0; head < item.heads; ++head, turn = 1 - turn) {
        const bool last_head = head + 1 == item.heads;
        const Range next = last_head ? semantics::next_keys(keys, tile.end, tile_keys) : tile;
        point(item.sequence, next, item.first_head + (last_head ? 0 : head + 1),
              pointers[1 - turn]);
        const bool fetches = next.end - next.begin >= tile.end - tile.begin;
        meet(item, head, tile, pointers[turn], fetches ? &pointers[1 - turn] : nullptr, floats);
        if (!last_head) continue;
        if (is_long && next.begin / long_span != tile.begin / long_span) earlier.set_aside(sums);
        tile = next;
      }
    }
    earlier.join(sums);
  }

  // One kv head of an item against one tile.
  void meet(const Item& item, Index head, Range tile, const Pointers& now, const Pointers* next,
            float* floats) const {
    const Index count = tile.end - tile.begin, first_row = head * item.rows;
    float* scores = floats + shape_.scores;
    float rescale[most_rows];
    const StreamedRows keys = {problem_.dtype, count,      call_.qk_dim,
                               now.keys,       now.values, call_.v_dim * element_};
    const StreamedRows values = {
        problem_.dtype,         count, call_.v_dim, now.values, next ? next->keys : nullptr,
        call_.qk_dim * element_};
    stream_.dots(floats + shape_.q + first_row * call_.qk_dim, item.rows, keys, scores, tile_keys);
    for (Index i = 0; i < item.rows; ++i) {
      rescale[i] =
          weigh(item.sequence, row_of(item, first_row + i), tile, scores + i * tile_keys,
                floats[shape_.references + first_row + i], floats[shape_.sums + first_row + i]);
    }
    stream_.accumulate(scores, tile_keys, item.rows, values, rescale,
                       floats + shape_.out + first_row * shape_.out_stride, shape_.out_stride);
  }

  // Where the keys and values of a tile lie.
  void point(const semantics::Sequence& sequence, Range tile, Index kv_head,
             Pointers& pointers) const {
    for (Index key = tile.begin; key < tile.end; ++key) {
      const auto place = semantics::key_place(call_, sequence, key);
      pointers.keys[key - tile.begin] =
          static_cast<const std::byte*>(call_.k) +
          semantics::row_offset(call_.k_stride, place, kv_head) * element_;
      pointers.values[key - tile.begin] =
          static_cast<const std::byte*>(call_.v) +
          semantics::row_offset(call_.v_stride, place, kv_head) * element_;
    }
  }

  // One row's dot products with a tile become weights.
  float weigh(const semantics::Sequence& sequence, const Row& row, Range tile, float* scores,
              float& row_max, float& row_sum) const {
    const KeyRanges all =
        semantics::visible_keys(call_.window, row.query + sequence.offset, sequence.kv_len);
    const Range seen = semantics::within(all, tile);
    const Index begin = seen.begin - tile.begin, end = seen.end - tile.begin;
    float scale = call_.scale * log2_e;
    if (has_scoring(call_) && begin < end) {
      rows_.score(
          row_scoring(call_, problem_.dtype, sequence, row.head, row.query, tile.begin + begin),
          scores + begin, end - begin);
      scale = log2_e;
    }
    const float rescale =
        stream_.softmax(scores, {begin, end}, tile.end - tile.begin, scale, row_max, row_sum);
    if (call_.dropout.seed && begin < end) {
      apply_dropout(semantics::dropout_stream(call_.dropout, sequence.index, row.head), row.query,
                    seen, 1, scores + begin);
    }
    return rescale;
  }

  // (chunks, partial_stride) of one row: O, m, l.
  float* partials_of(const Row& row) const {
    const Index rows = total_rows_ / call_.heads;
    const Index at = row.head * rows + row.place.outer * call_.q_len + row.place.row;
    return partials_ + at * shape_.chunks * shape_.partial_stride;
  }

  void store_partial(const Row& row, Index chunk, const RowState& state, const float* out) const {
    float* partial = partials_of(row) + chunk * shape_.partial_stride;
    std::copy_n(out, call_.v_dim, partial);
    partial[call_.v_dim] = state.reference;
    partial[call_.v_dim + 1] = state.sum;
  }

  void merge(Index b, Index head) const {
    const semantics::Sequence sequence = semantics::sequence(call_, b);
    const Index count = chunks(sequence);
    if (count == 1) return;
    for (Index query = 0; query < sequence.q_len; ++query) {
      const Row row = {head, query, semantics::query_place(call_, sequence, query)};
      float* partials = partials_of(row);
      const auto state_of = [&](Index chunk) -> RowState {
        const float* partial = partials + chunk * shape_.partial_stride + call_.v_dim;
        return {partial[0], partial[1]};
      };
      float reference = minus_infinity;
      for (Index chunk = 0; chunk < count; ++chunk)
        reference = std::max(reference, state_of(chunk).reference);
      double factors[most_chunks], sum = 0;
      for (Index chunk = 0; chunk < count; ++chunk) {
        factors[chunk] = factor_between(state_of(chunk).reference, reference);
        sum += state_of(chunk).sum * factors[chunk];
      }
      stream_.combine(partials, shape_.partial_stride, factors, count, call_.v_dim);
      finish(row, {reference, static_cast<float>(sum)}, partials);
    }
  }

  void finish(const Row& row, const RowState& keys, const float* out) const {
    const auto [all, factor] = with_sink(keys, state_of_sink(call_, row.head));
    const float kept_scale = semantics::kept_scale<float>(call_.dropout);
    rows_.store(problem_.out_dtype, out, kept_scale * factor * inverse_sum(all), call_.v_dim,
                static_cast<std::byte*>(call_.out) +
                    semantics::row_offset(call_.out_stride, row.place, row.head) * out_element_);
    if (!call_.lse) return;
    call_.lse[semantics::lse_offset(call_, row.place, row.head)] = natural_log(all);
  }

  const Problem& problem_;
  const semantics::Call& call_;
  Executor& executor_;
  Index threads_;
  const StreamOperations& stream_;
  const RowOperations& rows_;
  const Shape& shape_;
  Index heads_;       // kv heads of an item
  Index total_rows_;  // of all sequences and heads
  Index* prefix_;
  float* partials_;
  std::byte* scratch_;
  Index element_, out_element_;
};

constexpr Index chunk_choices[] = {512, 256, 1024};

Support supports(const Problem& p, const Device& device) {
  const Index smallest = *std::ranges::min_element(chunk_choices);
  const Index chunks = chunks_up_to(p.kv_len, smallest);
  const double partials =
      chunks > 1 ? double(p.total_q) * double(p.heads) * double(chunks) * double(p.v_dim + 18) * 4
                 : 0;
  const double scratch =
      double(device.threads) * double(most_rows) * double(p.qk_dim + 3 * p.v_dim + 128) * 4;
  const double limit = device.nominal.memory_bytes;
  if (limit == 0 || partials + scratch <= limit) return Support::yes();
  return Support::no(text("its partial results would need ", human_bytes(partials + scratch),
                          "; this machine has ", human_bytes(limit), " of memory"));
}

std::vector<Config> configs(const Problem&, const Device&) {
  std::vector<Config> result;
  for (const Index chunk : chunk_choices) result.push_back({{{"chunk", chunk}}});
  return result;
}

std::size_t workspace(const Task& task) {
  const Shape shape(task.problem, task.device.threads, task.config.at("chunk"));
  return static_cast<std::size_t>(shape.prefix_bytes + shape.partial_bytes +
                                  task.device.threads * shape.scratch_bytes);
}

// K and V are read once for every 64 rows of a kv head. Dot products with sums across vectors run
// at a fifth of the FMA rate; a row and a tile of keys cost some overhead of their own.
Estimate estimate(const Task& task) {
  const Problem& p = task.problem;
  const Shape shape(p, task.device.threads, task.config.at("chunk"));
  const double rows = double(p.q_len) * double(shape.group), threads = task.device.threads;
  const double passes = std::ceil(rows / double(most_rows));
  const double all_rows = double(p.total_q) * double(p.heads);
  const double tiles = p.flops() / (2 * double(p.qk_dim + p.v_dim)) / double(tile_keys);
  return estimate_from(p.flops(), task.device.nominal.f32_flops / 5, passes * p.bytes(),
                       task.device.nominal.read_bandwidth,
                       5e-6 + (all_rows * 0.1e-6 + tiles * 0.05e-6) / threads);
}

std::unique_ptr<const Prepared> prepare(const Task& task) {
  const Shape shape(task.problem, task.device.threads, task.config.at("chunk"));
  return prepared([task, shape](const semantics::Call& call, const Launch& launch) {
    SplitKv(task, call, launch, shape).run();
  });
}

}  // namespace

const Kernel cpu_split_kv = {
    .name = "cpu.split_kv",
    .summary = "few queries: the keys in chunks at the same time, K and V read once",
    .backend = Backend::cpu,
    .by_name_only = false,
    .supports = supports,
    .configs = configs,
    .estimate = estimate,
    .workspace = workspace,
    .prepare = prepare,
};

}  // namespace rapt
