// cuda.flash_wgmma as the registry knows it: what it takes, how long it should take, and how a call
// becomes tensor maps and a schedule.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>

#include "src/core/call.hpp"
#include "src/core/text.hpp"
#include "src/cuda/check.hpp"
#include "src/cuda/flash_wgmma/launch.hpp"
#include "src/cuda/flash_wgmma/tensor_map.hpp"
#include "src/cuda/hopper.hpp"
#include "src/cuda/kernels.hpp"
#include "src/gpu/softmax.hpp"
#include "src/portable/common.hpp"
#include "src/portable/key_splits.hpp"

namespace rapt {
namespace cuda::flash_wgmma {

// In the .cu files.
extern template void launch<tiles_32>(const Parameters&, int, gpu::Where);
extern template void launch<tiles_64>(const Parameters&, int, gpu::Where);
extern template void launch<tiles_64_short>(const Parameters&, int, gpu::Where);
extern template void launch<tiles_96>(const Parameters&, int, gpu::Where);
extern template void launch<tiles_128>(const Parameters&, int, gpu::Where);
extern template void launch<tiles_128_decode>(const Parameters&, int, gpu::Where);
extern template void launch<tiles_192_128>(const Parameters&, int, gpu::Where);
extern template void launch<tiles_192>(const Parameters&, int, gpu::Where);
extern template void launch<tiles_256>(const Parameters&, int, gpu::Where);
extern template void launch<with_score_mod(tiles_64_short)>(const Parameters&, int, gpu::Where);
extern template void launch<with_score_mod(tiles_96)>(const Parameters&, int, gpu::Where);
extern template void launch<with_score_mod(tiles_128)>(const Parameters&, int, gpu::Where);
extern template void launch<with_score_mod(tiles_192_128)>(const Parameters&, int, gpu::Where);
extern template void launch<with_score_mod(tiles_192)>(const Parameters&, int, gpu::Where);
extern template void launch<with_score_mod(tiles_256)>(const Parameters&, int, gpu::Where);

namespace {

using gpu::Index;
using gpu::is_uneven;

constexpr Index most_dim = 256;
constexpr int rows_of_warpgroup = 64;
constexpr Index most_pages = Index{1} << 31;

// The least tiles that hold the head dims. What does not depend on the batch keeps a row's bits.
template <class Function>
auto with_tiles(const Problem& p, Function function) {
  const Index dim = std::max(p.qk_dim, p.v_dim);
  const bool any_length = p.batch_invariant && p.bounded();  // q_len is other sequences', too
  if (gpu::has_score_mod(p)) {
    if (dim <= 64) return function.template operator()<with_score_mod(tiles_64_short)>();
    if (dim <= 96) return function.template operator()<with_score_mod(tiles_96)>();
    if (dim <= 128) return function.template operator()<with_score_mod(tiles_128)>();
    if (p.qk_dim <= 192 && p.v_dim <= 128)
      return function.template operator()<with_score_mod(tiles_192_128)>();
    if (dim <= 192) return function.template operator()<with_score_mod(tiles_192)>();
    return function.template operator()<with_score_mod(tiles_256)>();
  }
  if (dim <= 32) return function.template operator()<tiles_32>();
  if (dim <= 64 && is_uneven(p) && p.q_len <= 1024 && !any_length)
    return function.template operator()<tiles_64_short>();
  if (dim <= 64) return function.template operator()<tiles_64>();
  if (dim <= 96) return function.template operator()<tiles_96>();
  if (dim <= 128 && p.q_len * (p.heads / p.kv_heads) <= rows_of_warpgroup && !any_length)
    return function.template operator()<tiles_128_decode>();
  if (dim <= 128) return function.template operator()<tiles_128>();
  if (p.qk_dim <= 192 && p.v_dim <= 128) return function.template operator()<tiles_192_128>();
  if (dim <= 192) return function.template operator()<tiles_192>();
  return function.template operator()<tiles_256>();
}

TileConfig tiles_of(const Problem& p) {
  return with_tiles(p, []<TileConfig config>() { return config; });
}

// Query heads of a group that share a tile, where that leaves fewer rows empty: 1 or all of them.
int packed_heads(const Problem& p, const TileConfig& tiles) {
  const Index group = p.heads / p.kv_heads;
  if (group == 1 || group > rows_of_warpgroup) return 1;
  const auto filled = [&](Index packed) {
    const Index queries = tiles.warpgroups * (rows_of_warpgroup / packed);
    return double(p.q_len * packed) / double(semantics::rounded_up(p.q_len, queries) / queries *
                                             tiles.warpgroups * rows_of_warpgroup);
  };
  return filled(1) < 0.9 * filled(group) ? static_cast<int>(group) : 1;
}

struct WorkTiles {
  int packed_heads;
  Index queries, tiles, heads, pairs;  // queries of a warpgroup; tiles of a head; heads, in all too
  Index varlen_tiles;                  // for the tiles of a head in all sequences: see Schedule
  bool in_one_row() const {
    return 2 * double(varlen_tiles * heads) < double(tiles) * double(pairs);
  }
  double count() const {
    return in_one_row() ? double(varlen_tiles * heads) : double(tiles) * double(pairs);
  }
};
WorkTiles work_tiles_of(const Problem& p, const TileConfig& tiles) {
  WorkTiles work_tiles;
  work_tiles.packed_heads = packed_heads(p, tiles);
  work_tiles.queries = rows_of_warpgroup / work_tiles.packed_heads;
  work_tiles.tiles = semantics::divided_up(p.q_len, work_tiles.queries * tiles.warpgroups);
  work_tiles.heads = p.heads / work_tiles.packed_heads;
  work_tiles.pairs = work_tiles.heads * p.batch;
  work_tiles.varlen_tiles = p.varlen ? p.total_q / (work_tiles.queries * tiles.warpgroups) + p.batch
                                     : work_tiles.tiles * p.batch;
  return work_tiles;
}

// Of the L2 cache that the keys and values of an L2 group take.
constexpr double share_of_cache = 0.55;

// Whether blocks ask for their next work tile: where some take longer than others.
bool counts(const Problem& p) { return is_uneven(p); }

Schedule schedule_of(const Problem& p, const TileConfig& tiles, const Device& device) {
  const WorkTiles work_tiles = work_tiles_of(p, tiles);
  const Index heads_per_kv_head = work_tiles.heads / p.kv_heads;
  const double kv_bytes = 2.0 * double(p.kv_len) * double(p.qk_dim + p.v_dim);
  const double cached =
      std::floor(device.nominal.cache_bytes * share_of_cache / std::max(kv_bytes, 1.0));
  const Index l2_group =
      is_uneven(p)
          ? std::clamp<Index>(static_cast<Index>(cached) * heads_per_kv_head, 1, work_tiles.pairs)
          : std::min(heads_per_kv_head, work_tiles.pairs);
  const Index rest = work_tiles.pairs % l2_group;
  return {
      .packed_heads = gpu::divisor(work_tiles.packed_heads),
      .heads = gpu::divisor(work_tiles.heads),
      .heads_per_kv_head = gpu::divisor(heads_per_kv_head),
      .first_l2_group = gpu::divisor(rest > 0 ? rest : l2_group),
      .l2_group = gpu::divisor(l2_group),
      .l2_group_tiles = gpu::divisor(work_tiles.in_one_row() ? 1 : l2_group * work_tiles.tiles),
      .tiles = static_cast<int>(work_tiles.tiles),
      .varlen_tiles = work_tiles.in_one_row() ? static_cast<int>(work_tiles.varlen_tiles) : 0,
      .queries = static_cast<int>(work_tiles.queries),
      .work_tiles = static_cast<int>(work_tiles.count()),
  };
}

// Of queries or output: rows of a warpgroup.
CUtensorMap map_of_rows(const semantics::Call& call, DType dtype, const Schedule& schedule,
                        const void* data, Index dim, const Index (&stride)[3]) {
  const Index packed = schedule.packed_heads.value;
  return tensor_map<5>({
      .data = data,
      .dtype = dtype,
      .size = {dim, packed, call.q_starts ? call.total_q : call.q_len, schedule.heads.value,
               call.q_starts ? 1 : call.batch},
      .stride = {stride[2], stride[1], stride[2] * packed, stride[0]},
      .box = {64, packed, schedule.queries, 1, 1},
  });
}

Index length_of_keys(const semantics::Call& call) {
  return call.page_table ? call.page_size : call.kv_starts ? call.total_kv : call.kv_len;
}
bool has_keys(const semantics::Call& call) {
  return length_of_keys(call) > 0 && (!call.page_table || call.page_count > 0);
}

// Of keys or values. Where there are none, of anything: nobody sees it.
CUtensorMap map_of_keys(const semantics::Call& call, DType dtype, const void* data, Index dim,
                        const Index (&stride)[3], int rows) {
  // Numbers of pages are brought into the pool before they are used: its size can be anything.
  const Index outer = call.page_table ? most_pages : call.kv_starts ? 1 : call.batch;
  if (!has_keys(call))
    return tensor_map<4>({call.q, dtype, {1, 1, 1, 1}, {0, 0, 0}, {64, rows, 1, 1}});
  return tensor_map<4>({
      .data = data,
      .dtype = dtype,
      .size = {dim, length_of_keys(call), call.kv_heads, outer},
      .stride = {stride[1], stride[2], stride[0]},
      .box = {64, rows, 1, 1},
  });
}

// Whether TMA can bring the biases of a tile, if they are aligned: they are of 16 bits,
// those of a query contiguous, and its rows are those of the tile.
bool bias_can_come_by_tma(const Problem& p, int packed) {
  const auto mapped = [](Index stride) {
    return stride % 8 == 0 && stride >= 0 && stride < Index{1} << 39;
  };
  return p.bias.present() && p.bias.dtype != DType::f32 && p.bias.varies[3] && p.kv_len > 0 &&
         p.bias.stride[2] > 0 && packed == 1 && std::ranges::all_of(p.bias.stride, mapped);
}

// Axes along which it is broadcast have a length of 1.
CUtensorMap map_of_bias(const semantics::Call& call, DType dtype) {
  constexpr Index columns = 64, rows = 64;
  const Index(&stride)[4] = call.bias_stride;
  return tensor_map<4>({
      .data = call.bias,
      .dtype = dtype,
      .size = {call.kv_len, call.q_len, stride[1] == 0 ? 1 : call.heads,
               stride[0] == 0 ? 1 : call.batch},
      .stride = {stride[2], stride[1], stride[0]},
      .box = {columns, rows, 1, 1},
  });
}

// Axes that are stepped along must have a stride that TMA takes.
bool has_unmapped_stride(const Problem::Strides& stride, Index outer, Index rows, Index heads) {
  if (outer == 0 || rows == 0 || heads == 0) return false;
  const auto bad = [](Index step, Index count) {
    return count > 1 && (step <= 0 || step >= Index{1} << 39);
  };
  return bad(stride[0], outer) || bad(stride[1], rows) || bad(stride[2], heads);
}

// Whether TMA can take the output: of 16 bits, in whole pieces of 16 bytes.
bool output_can_go_by_tma(const Problem& p) {
  return p.out_dtype == p.dtype && p.v_dim % 8 == 0 &&
         !has_unmapped_stride(p.out, p.varlen ? 1 : p.batch, p.varlen ? p.total_q : p.q_len,
                              p.heads);
}

// Whether scores are dot products that only pass through a soft cap, rising with them, and not so
// wide a one that the last of three terms vanishes (−∞ must stay what it is), or that exponents
// become huge.
bool is_only_capped(const Problem& p) {
  const bool other = p.bias.present() || p.mask.present() || p.alibi;
  return p.softcap > 0 && p.softcap * gpu::log2_e < gpu::most_fused && !other &&
         std::pow(p.scale / p.softcap, 4.0f) * p.scale > 1e-30f;
}

Support supports(const Problem& p, const Device& device) {
  if (const Support hopper = on_hopper(device); !hopper) return hopper;
  if (p.dtype == DType::f32) return Support::no("it takes f16 and bf16; this problem is f32");
  if (std::max(p.qk_dim, p.v_dim) > most_dim) return gpu::refuse_dim(p, most_dim);
  if (p.window.first_keys > 0)
    return Support::no("it takes one range of keys; this problem has first keys beside a window");
  if (p.qk_dim == 0 || p.v_dim == 0) return Support::no("it takes head dims of 1 or more");
  if (p.alignment < 16)
    return Support::no(
        text("it needs q, k, v and out aligned to 16 bytes; this problem has align", p.alignment));
  const Index batch = p.varlen ? 1 : p.batch, pages_or_batch = p.paged() ? 2 : batch;
  const Index q_rows = p.varlen ? p.total_q : p.q_len;
  const Index kv_rows = p.paged() ? p.page_size : p.varlen ? p.total_kv : p.kv_len;
  if (has_unmapped_stride(p.q, batch, q_rows, p.heads) ||
      has_unmapped_stride(p.k, pages_or_batch, kv_rows, p.kv_heads) ||
      has_unmapped_stride(p.v, pages_or_batch, kv_rows, p.kv_heads))
    return Support::no("it takes no broadcast q, k or v: copy them out");
  const Index longest =
      std::max({p.q_len, p.kv_len, p.varlen ? std::max(p.total_q, p.total_kv) : 0});
  if (longest > most_length)
    return Support::no(
        text("it takes lengths up to ", most_length, "; this problem has ", longest));
  if (p.offset && (*p.offset > most_length || *p.offset < -most_length))
    return Support::no(
        text("it takes offsets up to ", most_length, "; this problem has ", *p.offset));
  // Blocks that come to ask when all work tiles are begun still count theirs.
  return gpu::blocks_fit(work_tiles_of(p, tiles_of(p)).count() + 2.0 * device.multiprocessors,
                         device);
}

// Where scores are more than scaled dot products: masks, and biases that TMA cannot bring, are read
// one by one.
double score_rate(const Problem& p, const gpu::Reach& chip, int packed_heads) {
  if (p.bias.present() && !bias_can_come_by_tma(p, packed_heads)) return chip.wgmma_bias_rate;
  return p.mask.present() ? chip.wgmma_mask_rate : 1;
}

// A step is a tile of keys; blocks take one work tile after another.
Estimate estimate(const Task& task) {
  const Problem& p = task.problem;
  const TileConfig tiles = tiles_of(p);
  const WorkTiles work_tiles = work_tiles_of(p, tiles);
  const gpu::Reach& chip = gpu::reach_of(task.device);
  const bool decode = tiles.warpgroups == 1;
  const double rate = score_rate(p, chip, work_tiles.packed_heads);
  const double expected =
      std::min(work_tiles.count(), double(work_tiles.varlen_tiles * work_tiles.heads));
  return gpu::WaveModel(task.device, decode ? chip.wgmma_decode : chip.wgmma,
                        {.blocks = std::max(expected, 1.0),
                         .keys = gpu::average_keys(p, double(work_tiles.queries)),
                         .most_keys = double(gpu::expected_keys(p)),
                         .uneven = is_uneven(p),
                         .step_keys = double(tiles.keys),
                         .step_flops = 2.0 * (tiles.qk_dim + tiles.v_dim) * tiles.keys *
                                       tiles.warpgroups * rows_of_warpgroup,
                         .flops_per_second = task.device.nominal.matrix_flops,
                         .bytes = p.bytes(),
                         .launches = counts(p) ? 2.0 : 1.0,
                         .dim = tiles.v_dim,
                         .rate = rate,
                         .score_mod = gpu::has_score_mod(p) && rate == 1,
                         .paged = p.paged() && p.page_size < tiles.keys})
      .whole();
}

std::size_t workspace(const Task& task) { return counts(task.problem) ? sizeof(int) : 0; }

// All of a launch but pointers, for a batch of the call's sizes. The maps are of the call's
// tensors.
template <TileConfig tiles>
Parameters parameters_for(const Problem& p, const Device& device, const semantics::Call& call) {
  const Schedule schedule = schedule_of(p, tiles, device);
  const int box_keys =
      p.paged() ? static_cast<int>(std::gcd(p.page_size, Index{tiles.keys})) : tiles.keys;
  const bool output_by_tma = output_can_go_by_tma(p);
  return {
      .call = call,
      .schedule = schedule,
      .scale = call.scale * gpu::log2_e,
      .share_of_cap = p.softcap > 0 ? p.scale / p.softcap : 0,
      .only_capped = is_only_capped(p),
      .tile_counter = nullptr,
      .dtype = p.dtype,
      .bias_by_tma = bias_can_come_by_tma(p, schedule.packed_heads.value),
      .page_size = gpu::divisor(std::max<Index>(p.page_size, 1)),
      .box_keys = box_keys,
      .output_by_tma = output_by_tma,
      .queries = map_of_rows(call, p.dtype, schedule, call.q, call.qk_dim, call.q_stride),
      .keys = map_of_keys(call, p.dtype, call.k, call.qk_dim, call.k_stride, box_keys),
      .values = map_of_keys(call, p.dtype, call.v, call.v_dim, call.v_stride, box_keys),
      .biases = {},
      .output = output_by_tma
                    ? map_of_rows(call, p.dtype, schedule, call.out, call.v_dim, call.out_stride)
                    : CUtensorMap{},
  };
}

// Makes maps fit a call's own tensors, of the sizes they were made for.
void move_maps(Parameters& parameters, const semantics::Call& call) {
  parameters.call = call;
  move_map(parameters.queries, call.q);
  move_map(parameters.keys, has_keys(call) ? call.k : call.q);
  move_map(parameters.values, has_keys(call) ? call.v : call.q);
  if (parameters.output_by_tma) move_map(parameters.output, call.out);
}

// A call of the problem's own sizes, whose tensors are nowhere yet.
semantics::Call planned_call_of(const Problem& p) {
  semantics::Call call = planned_call(p);
  void* const nowhere = reinterpret_cast<void*>(std::uintptr_t{1} << 20);
  call.batch = p.batch;
  call.q_len = p.varlen ? std::min(p.q_len, p.total_q) : p.q_len;
  call.total_q = p.total_q;
  call.total_kv = p.total_kv;
  call.q = call.k = call.v = nowhere;
  call.out = nowhere;
  const auto* present = static_cast<const std::int32_t*>(nowhere);
  call.q_starts = p.varlen ? present : nullptr;
  call.kv_starts = p.varlen && !p.paged() ? present : nullptr;
  call.page_table = p.paged() ? present : nullptr;
  call.page_count = p.paged() ? most_pages : 0;
  return call;
}

bool is_planned_size(const semantics::Call& planned, const semantics::Call& call) {
  return call.batch == planned.batch && call.q_len == planned.q_len &&
         call.kv_len == planned.kv_len && call.total_q == planned.total_q &&
         call.total_kv == planned.total_kv;
}

template <TileConfig tiles>
std::unique_ptr<const Prepared> prepare_tiles(const Task& task) {
  if (task.problem.batch == 0 || task.problem.total_q == 0 || task.problem.q_len == 0)
    return prepared([](const semantics::Call&, const Launch&) {});  // no run has a row
  const Parameters planned =
      parameters_for<tiles>(task.problem, task.device, planned_call_of(task.problem));
  return prepared([task, planned](const semantics::Call& call, const Launch& where_to) {
    const Problem& p = task.problem;
    if (call.q_len == 0) return;
    Parameters parameters = planned;
    if (is_planned_size(planned.call, call))
      move_maps(parameters, call);
    else
      parameters = parameters_for<tiles>(gpu::problem_of_run(p, call), task.device, call);
    parameters.bias_by_tma =
        planned.bias_by_tma && reinterpret_cast<std::uintptr_t>(call.bias) % 16 == 0;
    if (parameters.bias_by_tma) parameters.biases = map_of_bias(call, p.dtype);
    const gpu::Where where = gpu::where(task, where_to);
    const UseDevice current(where.device);
    if (counts(p)) {
      parameters.tile_counter = reinterpret_cast<int*>(where_to.workspace.data());
      require(cudaMemsetAsync(parameters.tile_counter, 0, sizeof(int),
                              static_cast<cudaStream_t>(where.stream)),
              "clear a counter");
    }
    launch<tiles>(parameters, std::min(parameters.schedule.work_tiles, task.device.multiprocessors),
                  where);
  });
}

std::unique_ptr<const Prepared> prepare(const Task& task) {
  return with_tiles(task.problem, [&]<TileConfig tiles>() { return prepare_tiles<tiles>(task); });
}

}  // namespace
}  // namespace cuda::flash_wgmma

const Kernel cuda_flash_wgmma = {
    .name = "cuda.flash_wgmma",
    .summary = "Hopper: warps load by TMA, warpgroups multiply on tensor cores",
    .backend = Backend::cuda,
    .by_name_only = false,
    .supports = cuda::flash_wgmma::supports,
    .configs = one_empty_config,
    .estimate = cuda::flash_wgmma::estimate,
    .workspace = cuda::flash_wgmma::workspace,
    .prepare = cuda::flash_wgmma::prepare,
};

}  // namespace rapt
