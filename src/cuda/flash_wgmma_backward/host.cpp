// cuda.flash_wgmma_backward as the registry knows it: what it takes, how long it should take, and
// its launches.
#include <algorithm>
#include <cstdint>

#include "src/core/text.hpp"
#include "src/cuda/check.hpp"
#include "src/cuda/flash_wgmma_backward/launch.hpp"
#include "src/cuda/flash_wgmma_backward/plan_schedule.hpp"
#include "src/cuda/hopper/support.hpp"
#include "src/cuda/hopper/tensor_map.hpp"
#include "src/cuda/kernels.hpp"
#include "src/gpu/softmax.hpp"
#include "src/portable/common.hpp"

namespace rapt {
namespace cuda::flash_wgmma_backward {

// In the .cu files.
extern template void launch<tiles_64>(const Parameters&, gpu::Where);
extern template void launch<with_score_mod(tiles_64)>(const Parameters&, gpu::Where);
extern template void prepare_rows<tiles_64>(const Parameters&, gpu::Where);
extern template void finish_query_gradients<tiles_64>(const Parameters&, gpu::Where);
extern template void launch<tiles_128>(const Parameters&, gpu::Where);
extern template void launch<with_score_mod(tiles_128)>(const Parameters&, gpu::Where);
extern template void prepare_rows<tiles_128>(const Parameters&, gpu::Where);
extern template void finish_query_gradients<tiles_128>(const Parameters&, gpu::Where);
extern template void launch<tiles_192>(const Parameters&, gpu::Where);
extern template void launch<with_score_mod(tiles_192)>(const Parameters&, gpu::Where);
extern template void prepare_rows<tiles_192>(const Parameters&, gpu::Where);
extern template void finish_query_gradients<tiles_192>(const Parameters&, gpu::Where);
extern template void launch<tiles_256>(const Parameters&, gpu::Where);
extern template void launch<with_score_mod(tiles_256)>(const Parameters&, gpu::Where);
extern template void prepare_rows<tiles_256>(const Parameters&, gpu::Where);
extern template void finish_query_gradients<tiles_256>(const Parameters&, gpu::Where);

namespace {

using gpu::Index;
using semantics::divided_up;
using semantics::rounded_up;

constexpr Index most_dim = 128, most_wide_dim = 256, most_length = 1000000000;
constexpr int rows_of_block = 16;  // of rows.cuh's kernels, at least; they have the most blocks

// What `function`, called with the tiles of a problem without regard to its scores, returns.
template <class Function>
auto with_tiles(const Problem& p, Function function) {
  const Index dim = std::max(p.qk_dim, p.v_dim);
  if (dim <= tiles_64.dim) return function.template operator()<tiles_64>();
  if (dim <= tiles_128.dim) return function.template operator()<tiles_128>();
  if (dim <= tiles_192.dim) return function.template operator()<tiles_192>();
  return function.template operator()<tiles_256>();
}

TileConfig tiles_of(const Problem& p) {
  const TileConfig tiles = with_tiles(p, []<TileConfig tiles>() { return tiles; });
  return gpu::is_general(p) ? with_score_mod(tiles) : tiles;
}

// Rows and sequences that tensors have: packed ones are one after another.
Index outer_of(const Problem& p) { return p.varlen ? 1 : p.batch; }
Index query_rows_of(const Problem& p) { return p.varlen ? p.total_q : p.q_len; }
Index key_rows_of(const Problem& p) { return p.varlen ? p.total_kv : p.kv_len; }

Support supports_any_dims(const Problem& p, const Device& device) {
  if (const Support hopper = on_hopper(device); !hopper) return hopper;
  if (p.dtype == DType::f32) return Support::no("it takes f16 and bf16; this problem is f32");
  if (p.out_dtype != p.dtype)
    return Support::no(
        "out and dout are f32, and it multiplies 16-bit elements only; flash_backward does");
  if (p.qk_dim == 0 || p.v_dim == 0) return Support::no("it takes head dims of 1 or more");
  if (p.window.first_keys > 0)
    return Support::no("it takes no window with first keys; flash_mma_backward does");
  if (p.dbias.present() || p.dalibi)
    return Support::no("it gives no dbias and no dalibi; flash_mma_backward does");
  if (p.alignment < 16)
    return Support::no(
        text("it needs tensors aligned to 16 bytes; this problem has align", p.alignment));
  if (has_unmapped_stride(p.q, outer_of(p), query_rows_of(p), p.heads) ||
      has_unmapped_stride(p.dout, outer_of(p), query_rows_of(p), p.heads) ||
      has_unmapped_stride(p.k, outer_of(p), key_rows_of(p), p.kv_heads) ||
      has_unmapped_stride(p.v, outer_of(p), key_rows_of(p), p.kv_heads))
    return Support::no("it takes no broadcast q, k, v or dout: copy them out");
  if (const Support fit = gpu::lengths_fit(p, most_length); !fit) return fit;
  if (const Index rows = std::max(query_rows_of(p), key_rows_of(p)); rows > most_length)
    return Support::no(
        text("it takes up to ", most_length, " packed rows; this problem has ", rows));
  const double blocks =
      double(p.batch) * double(rounded_up(p.q_len, 128)) * double(p.heads) / rows_of_block;
  return gpu::blocks_fit(std::max(blocks, double(p.batch) * double(p.kv_heads)), device);
}

Support supports(const Problem& p, const Device& device) {
  if (std::max(p.qk_dim, p.v_dim) > most_dim) return gpu::refuse_dim(p, most_dim);
  return supports_any_dims(p, device);
}

Support supports_wide(const Problem& p, const Device& device) {
  if (std::max(p.qk_dim, p.v_dim) <= most_dim)
    return Support::no(
        text("it takes head dims above ", most_dim, "; flash_wgmma_backward takes these"));
  if (std::max(p.qk_dim, p.v_dim) > most_wide_dim) return gpu::refuse_dim(p, most_wide_dim);
  return supports_any_dims(p, device);
}

// A step is a tile of queries; the blocks of the schedule, which may leave multiprocessors idle,
// take one tile of keys after another.
Estimate estimate(const Task& task) {
  const Problem& p = task.problem;
  const TileConfig tiles = tiles_of(p);
  const int multiprocessors = std::max(task.device.multiprocessors, 1);
  const Schedule schedule = plan_schedule(p, tiles, multiprocessors);
  const double idle_factor = double(multiprocessors) / (schedule.teams * schedule.members);
  const double keys = std::max(1.0, double(p.total_kv) * double(p.kv_heads));
  const double multiplications = 3.0 * double(p.qk_dim) + 2.0 * double(p.v_dim);
  const double tiles_of_keys =
      double(divided_up(p.kv_len, Index{tiles.keys})) * double(p.batch * p.kv_heads);
  return gpu::WaveModel(
             task.device, gpu::reach_of(task.device).wgmma_backward,
             {.blocks = std::max(tiles_of_keys * gpu::filled_tiles(p), 1.0) * idle_factor,
              .keys = p.flops() / (2 * multiplications * keys),
              .most_keys = double(p.q_len) * double(p.heads / p.kv_heads),
              .uneven = gpu::is_uneven(p),
              .step_keys = double(tiles.queries),
              .step_flops = 10.0 * tiles.dim * tiles.keys * tiles.queries,
              .flops_per_second = task.device.nominal.matrix_flops,
              .bytes = 2 * p.bytes(),
              .launches = 3,
              .dim = tiles.dim,
              .score_mod = gpu::is_general(p)})
      .whole();
}

// Where the kernel's own arrays lie in the workspace, for batches of the problem's sizes.
struct Workspace {
  Index tiles, query_tiles;
  Index exponents, deltas, dq, counters, row_deltas, bytes;  // where each begins

  explicit Workspace(const Problem& p) {
    const TileConfig config = tiles_of(p);
    const Index queries = config.queries;
    query_tiles = divided_up(p.q_len, queries);
    tiles = p.varlen ? p.total_q / queries + p.batch : p.batch * query_tiles;
    Index at = 0;
    const auto take = [&](Index numbers) {
      const Index begin = at;
      at += rounded_up(numbers * 4, 128);
      return begin;
    };
    exponents = take(p.heads * tiles * queries);
    deltas = take(p.heads * tiles * queries);
    dq = take(p.heads * tiles * queries * config.dim);
    counters = take(p.batch * p.heads * query_tiles * config.parts_of_warpgroup());
    row_deltas = take(p.dsinks ? p.total_q * p.heads : 0);
    bytes = at;
  }
};

std::size_t workspace(const Task& task) {
  return static_cast<std::size_t>(Workspace(task.problem).bytes);
}

CUtensorMap map_of(DType dtype, const void* data, Index dim, Index rows, Index heads, Index outer,
                   const Index (&stride)[3], int box_rows) {
  // Nothing is loaded of a tensor without elements, whose address and strides may be anything.
  if (rows == 0 || heads == 0 || outer == 0) {
    const void* const nowhere = reinterpret_cast<void*>(std::uintptr_t{1} << 20);
    return tensor_map<4>({nowhere, dtype, {1, 1, 1, 1}, {0, 0, 0}, {64, box_rows, 1, 1}});
  }
  return tensor_map<4>({.data = data,
                        .dtype = dtype,
                        .size = {dim, rows, heads, outer},
                        .stride = {stride[1], stride[2], stride[0]},
                        .box = {64, box_rows, 1, 1}});
}

// `p` has the sizes of the call.
Parameters parameters_for(const Problem& p, const Device& device, const semantics::Call& call,
                          const semantics::Gradients& gradients, std::byte* memory) {
  const TileConfig tiles = tiles_of(p);
  const Workspace own(p);
  const auto numbers = [&](Index at) { return reinterpret_cast<float*>(memory + at); };
  const auto queries = [&](const void* data, Index dim, const Index(&stride)[3]) {
    return map_of(p.dtype, data, dim, query_rows_of(p), p.heads, outer_of(p), stride,
                  tiles.queries);
  };
  const auto keys = [&](const void* data, Index dim, const Index(&stride)[3]) {
    return map_of(p.dtype, data, dim, key_rows_of(p), p.kv_heads, outer_of(p), stride, tiles.keys);
  };
  return {.common = {.call = call,
                     .gradients = gradients,
                     .dtype = p.dtype,
                     .aligned = true,
                     .deltas = numbers(own.row_deltas),
                     .slope_parts = nullptr},
          .schedule = plan_schedule(p, tiles, device.multiprocessors),
          .rows = {.exponents = numbers(own.exponents),
                   .deltas = numbers(own.deltas),
                   .dq = numbers(own.dq),
                   .counters = reinterpret_cast<uint32_t*>(memory + own.counters),
                   .tiles = static_cast<int>(own.tiles)},
          .scale = call.scale * gpu::log2_e,
          .queries = queries(call.q, call.qk_dim, call.q_stride),
          .keys = keys(call.k, call.qk_dim, call.k_stride),
          .values = keys(call.v, call.v_dim, call.v_stride),
          .dout = queries(gradients.dout, call.v_dim, gradients.dout_stride)};
}

template <TileConfig tiles>
std::unique_ptr<const Prepared> prepare_tiles(const Task& task) {
  find_map_functions();
  return prepared([task](const semantics::Call& call, const semantics::Gradients& gradients,
                         const Launch& launch_at) {
    const Problem p = gpu::problem_of_run(task.problem, call);
    const gpu::Where where = gpu::where(task, launch_at);
    const UseDevice current(where.device);
    const Parameters parameters =
        parameters_for(p, task.device, call, gradients, launch_at.workspace.data());
    prepare_rows<without_score_mod(tiles)>(parameters, where);
    launch<tiles>(parameters, where);
    finish_query_gradients<without_score_mod(tiles)>(parameters, where);
    sum_over_rows(parameters, where);
  });
}

std::unique_ptr<const Prepared> prepare(const Task& task) {
  return with_tiles(task.problem, [&]<TileConfig tiles>() {
    return gpu::is_general(task.problem) ? prepare_tiles<with_score_mod(tiles)>(task)
                                         : prepare_tiles<tiles>(task);
  });
}

}  // namespace
}  // namespace cuda::flash_wgmma_backward

const Kernel cuda_flash_wgmma_backward = {
    .name = "cuda.flash_wgmma_backward",
    .summary = "Hopper: gradients on tensor cores by whole warpgroups, dq added in a fixed order",
    .backend = Backend::cuda,
    .operation = Operation::backward,
    .by_name_only = false,
    .supports = cuda::flash_wgmma_backward::supports,
    .configs = one_empty_config,
    .estimate = cuda::flash_wgmma_backward::estimate,
    .workspace = cuda::flash_wgmma_backward::workspace,
    .prepare = cuda::flash_wgmma_backward::prepare,
};

// By name only until it has run on a GPU.
const Kernel cuda_flash_wgmma_backward_wide = {
    .name = "cuda.flash_wgmma_backward_wide",
    .summary = "the same for head dims of 129 to 256; run on a model of Hopper alone",
    .backend = Backend::cuda,
    .operation = Operation::backward,
    .by_name_only = true,
    .supports = cuda::flash_wgmma_backward::supports_wide,
    .configs = one_empty_config,
    .estimate = cuda::flash_wgmma_backward::estimate,
    .workspace = cuda::flash_wgmma_backward::workspace,
    .prepare = cuda::flash_wgmma_backward::prepare,
};

}  // namespace rapt
