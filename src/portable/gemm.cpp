#include "src/portable/gemm.hpp"

#include <algorithm>
#include <cmath>

#include "src/core/call.hpp"
#include "src/core/text.hpp"
#include "src/portable/common.hpp"

namespace rapt::gpu {
namespace {

using semantics::rounded_up;

constexpr double most_pass_bytes = 1 << 30;
constexpr Index most_items = 65535;  // of a launch along z, which a library may use for them
constexpr Index most_size = 0x7fffffff;
constexpr Index fewer_items = 4;  // times, from one config to the next
constexpr Index configs_offered = 3;
constexpr Index alignment = 256;  // what cuBLAS asks of its workspace, and enough for everything
constexpr Index least_library_bytes = 64 << 10, most_library_bytes = 32 << 20;

Index items_of(const Problem& p) { return p.batch * p.kv_heads; }

// Of an item, before anything is known to fit into 64 bits.
struct ItemSizes {
  double rows, keys, qk_dim, v_dim, parts;

  explicit ItemSizes(const Problem& p) : ItemSizes(p, queries(p), p.kv_len) {}
  // With the lengths of one run.
  ItemSizes(const Problem& p, Index q_len, Index kv_len)
      : rows(double(p.heads) / double(p.kv_heads) * double(q_len)),
        keys(double(rounded_up(std::max<Index>(kv_len, 1), gemm_padding))),
        qk_dim(double(rounded_up(p.qk_dim, gemm_padding))),
        v_dim(double(rounded_up(p.v_dim, gemm_padding))),
        parts(double(gemm_parts(static_cast<Index>(keys), gemm_span(p.dtype, p.tf32)))) {}

  static Index queries(const Problem& p) {
    return p.varlen ? std::min(p.q_len, p.total_q) : p.q_len;
  }
  double scores() const { return rows * keys; }
  double gathered() const { return rows * qk_dim + keys * (qk_dim + v_dim); }
  double sums() const { return parts * rows * v_dim; }
  double bytes(double element) const {
    const double weights = element < 4 ? element : 0;
    return gathered() * element + scores() * (4 + weights) + (sums() + rows) * 4;
  }
  // The largest of the three launches.
  double blocks() const { return std::max({rows, (rows + 2 * keys) / 8, rows * v_dim / 1024}); }
};

double element_bytes(const Problem& p) { return double(size_in_bytes(p.dtype)); }

// What one pass takes at most.
Index most_items_at_once(const Problem& p) {
  const ItemSizes item(p);
  const double fit = std::min(most_pass_bytes / std::max(item.bytes(element_bytes(p)), 1.0),
                              double(most_blocks_x) / (item.blocks() + 1));
  const double wanted = std::min({fit, double(items_of(p)), double(most_items)});
  return std::max<Index>(static_cast<Index>(wanted), 1);
}

// Offsets of the matrices of a pass from the first byte of the workspace that is aligned.
struct Shape {
  Index rows, keys, qk_dim, v_dim, items;
  Index q, k, v, scores, weights, row_sums, sums, library, library_bytes, bytes;

  Shape(const Problem& p, const ItemSizes& item, Index items_at_once) : items(items_at_once) {
    rows = static_cast<Index>(item.rows);
    keys = static_cast<Index>(item.keys);
    qk_dim = static_cast<Index>(item.qk_dim);
    v_dim = static_cast<Index>(item.v_dim);
    const Index element = size_in_bytes(p.dtype), score_bytes = items * rows * keys * 4;
    Index end = 0;
    const auto take = [&](Index size) {
      const Index begin = end;
      end += rounded_up(size, alignment);
      return begin;
    };
    q = take(items * rows * qk_dim * element);
    k = take(items * keys * qk_dim * element);
    v = take(items * keys * v_dim * element);
    scores = take(score_bytes);
    weights = element < 4 ? take(items * rows * keys * element) : scores;
    row_sums = take(items * rows * 4);
    sums = take(static_cast<Index>(item.parts) * items * rows * v_dim * 4);
    library_bytes =
        std::clamp(rounded_up(score_bytes, alignment), least_library_bytes, most_library_bytes);
    library = take(library_bytes);
    bytes = end + alignment - static_cast<Index>(workspace_alignment);
  }
};

// Of one run: no larger than the plan's.
Shape shape_of(const Task& task, Index items, const semantics::Call& call) {
  return {task.problem, ItemSizes(task.problem, call.q_len, call.kv_len), items};
}

std::byte* first_aligned(const Launch& launch) {
  const auto address = reinterpret_cast<std::uintptr_t>(launch.workspace.data());
  return launch.workspace.data() + (alignment - address % alignment) % alignment;
}

}  // namespace

Support GemmHost::supports(const Problem& p, const Device& device) {
  if (p.batch_invariant) {
    return Support::no(
        "the library that multiplies orders its additions by the size of the batch; it cannot be "
        "batch-invariant");
  }
  const ItemSizes item(p);
  for (const auto& [what, size] :
       {std::pair{"rows", item.rows}, std::pair{"keys", item.keys},
        std::pair{"q·k dims", item.qk_dim}, std::pair{"v dims", item.v_dim}}) {
    if (size > double(most_size))
      return Support::no(text("a matrix would have ", size, " ", what, "; the library takes ",
                              most_size, " at most"));
  }
  const double bytes = item.bytes(element_bytes(p)), limit = device.nominal.memory_bytes;
  if (limit > 0 && bytes > limit) {
    return Support::no(text("its scores would need ", human_bytes(bytes), "; ", device.to_string(),
                            " has ", human_bytes(limit)));
  }
  return blocks_fit(item.blocks(), device);
}

std::vector<Config> GemmHost::configs(const Problem& p, const Device&) {
  std::vector<Config> all;
  Index items = most_items_at_once(p);
  for (Index i = 0; i < configs_offered && items > 0; ++i, items /= fewer_items)
    all.push_back({{{"items", items}}});
  return all;
}

// The products at what such libraries reach, whatever the mask leaves out; every score written and
// read twice, the inputs written and read once more.
Estimate GemmHost::estimate(const Task& task) {
  const Problem& p = task.problem;
  const Limits& nominal = task.device.nominal;
  const Reach& reach = reach_of(task.device);
  const ItemSizes item(p);
  const double items = double(items_of(p)), element = element_bytes(p);
  const double span = double(gemm_span(p.dtype, p.tf32));
  const double products_of_dims = std::ceil(item.qk_dim / span);
  const double products_of_keys = std::ceil(item.keys / span);
  const bool matrix_units = (element < 4 || p.tf32) && nominal.matrix_flops > 0;
  const double tile = 64;  // rows and keys; more than there are is computed for nothing
  const double padded_rows = std::ceil(item.rows / tile) * tile;
  const double tiles = std::max(items * padded_rows / tile * std::ceil(item.keys / tile), 1.0);
  const double passes = std::ceil(items / double(task.config.at("items")));
  const double flops = 2 * items * padded_rows * item.keys * (item.qk_dim + item.v_dim);
  return WaveModel(task.device,
                   !matrix_units           ? reach.gemm
                   : p.dtype == DType::f32 ? reach.gemm_tf32
                                           : reach.gemm_b16,
                   {.blocks = tiles,
                    .uneven = true,
                    .step_flops = flops / tiles,
                    .flops_per_second = matrix_units ? nominal.matrix_flops : nominal.f32_flops,
                    .bytes = p.bytes(),
                    .apart_bytes = items * (item.scores() *
                                                (4 * (2 * products_of_dims - 1) + 8 + 2 * element) +
                                            item.gathered() * element * 2 +
                                            item.rows * item.v_dim * 8 * products_of_keys),
                    .launches = passes * (3 + products_of_dims + products_of_keys)})
      .whole();
}

std::size_t GemmHost::workspace(const Task& task) {
  return static_cast<std::size_t>(
      Shape(task.problem, ItemSizes(task.problem), task.config.at("items")).bytes);
}

std::span<std::byte> GemmHost::library_workspace(const Task& task, Index items,
                                                 const semantics::Call& call,
                                                 const Launch& launch) {
  const Shape shape = shape_of(task, items, call);
  return {first_aligned(launch) + shape.library, static_cast<std::size_t>(shape.library_bytes)};
}

void GemmHost::run(void (*launch_pass)(const GemmParameters&, const Products&, Where),
                   const Products& products, const Task& task, Index items,
                   const semantics::Call& call, const Launch& launch) {
  const Problem& p = task.problem;
  const Shape shape = shape_of(task, items, call);
  std::byte* memory = first_aligned(launch);
  GemmParameters parameters = {
      .call = call,
      .dtype = p.dtype,
      .tf32 = p.tf32,
      .aligned = p.alignment == access_bytes,
      .first_item = 0,
      .items = 0,
      .rows = shape.rows,
      .keys = shape.keys,
      .qk_dim = shape.qk_dim,
      .v_dim = shape.v_dim,
      .q = memory + shape.q,
      .k = memory + shape.k,
      .v = memory + shape.v,
      .scores = reinterpret_cast<float*>(memory + shape.scores),
      .weights = memory + shape.weights,
      .row_sums = reinterpret_cast<float*>(memory + shape.row_sums),
      .sums = reinterpret_cast<float*>(memory + shape.sums),
  };
  const Index all = call.batch * call.kv_heads;
  for (Index first = 0; first < all; first += shape.items) {
    parameters.first_item = first;
    parameters.items = std::min(shape.items, all - first);
    launch_pass(parameters, products, where(task, launch));
  }
}

}  // namespace rapt::gpu
