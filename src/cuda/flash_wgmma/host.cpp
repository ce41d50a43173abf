// cuda.flash_wgmma as the registry knows it: what it takes, how long it should take, and its
// launch. choose_tiles.hpp, schedule.hpp and call_maps.hpp have what a launch is made of.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>

#include "src/core/call.hpp"
#include "src/core/text.hpp"
#include "src/cuda/check.hpp"
#include "src/cuda/flash_wgmma/call_maps.hpp"
#include "src/cuda/flash_wgmma/choose_tiles.hpp"
#include "src/cuda/flash_wgmma/schedule.hpp"
#include "src/cuda/hopper/support.hpp"
#include "src/cuda/hopper/tensor_map.hpp"
#include "src/cuda/kernels.hpp"
#include "src/gpu/softmax.hpp"
#include "src/portable/common.hpp"
#include "src/portable/key_splits.hpp"

namespace rapt {
namespace cuda::flash_wgmma {

namespace {

constexpr Index most_dim = 256;

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
                         .uneven = gpu::is_uneven(p),
                         .step_keys = double(tiles.keys),
                         .step_flops = 2.0 * (tiles.qk_dim + tiles.v_dim) * tiles.keys *
                                       tiles.warpgroups * rows_of_warpgroup,
                         .flops_per_second = task.device.nominal.matrix_flops,
                         .bytes = p.bytes(),
                         .launches = has_tile_counter(p) ? 2.0 : 1.0,
                         .dim = tiles.v_dim,
                         .rate = rate,
                         .score_mod = gpu::is_general(p) && rate == 1,
                         .paged = p.paged() && p.page_size < tiles.keys})
      .whole();
}

std::size_t workspace(const Task& task) { return has_tile_counter(task.problem) ? sizeof(int) : 0; }

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
    if (has_tile_counter(p)) {
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
