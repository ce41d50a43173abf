// cuda.flash_wgmma_f32 as the registry knows it: what it takes, and how long it should take.
#include <algorithm>

#include "src/core/text.hpp"
#include "src/cuda/flash_wgmma_f32/launch.hpp"
#include "src/cuda/hopper/support.hpp"
#include "src/cuda/kernels.hpp"
#include "src/portable/common.hpp"
#include "src/portable/key_splits.hpp"

namespace rapt {
namespace cuda::flash_wgmma_f32 {

// In the .cu files.
extern template void launch<tiles_for(32, false)>(const Parameters&, gpu::Where);
extern template void launch<tiles_for(32, true)>(const Parameters&, gpu::Where);
extern template void launch<tiles_for(64, false)>(const Parameters&, gpu::Where);
extern template void launch<tiles_for(64, true)>(const Parameters&, gpu::Where);
extern template void launch<tiles_for(128, false)>(const Parameters&, gpu::Where);
extern template void launch<tiles_for(128, true)>(const Parameters&, gpu::Where);
extern template void launch<tiles_for(256, false)>(const Parameters&, gpu::Where);
extern template void launch<tiles_for(256, true)>(const Parameters&, gpu::Where);

namespace {

using gpu::Index;

constexpr Index most_dim = 256, most_length = 1000000000;
// What three products leave out of a single one shows where nothing is summed.
constexpr Index least_dim = 8;

template <class Function>
void with_tiles(const Problem& p, Function function) {
  gpu::with_one_of<32, 64, 128, 256>(std::max(p.qk_dim, p.v_dim), [&]<int dim>() {
    gpu::is_general(p) ? function.template operator()<tiles_for(dim, true)>()
                       : function.template operator()<tiles_for(dim, false)>();
  });
}

TileConfig tiles_of(const Problem& p) {
  const Index dim = std::max(p.qk_dim, p.v_dim);
  return tiles_for(static_cast<int>(std::min(dim, most_dim)), gpu::is_general(p));
}

Support supports(const Problem& p, const Device& device) {
  if (const Support hopper = on_hopper(device); !hopper) return hopper;
  if (p.dtype != DType::f32)
    return Support::no(text("it takes f32; this problem is ", name(p.dtype)));
  if (p.tf32) return Support::no("it takes f32 with all its places; this problem says tf32");
  if (std::max(p.qk_dim, p.v_dim) > most_dim) return gpu::refuse_dim(p, most_dim);
  if (std::min(p.qk_dim, p.v_dim) < least_dim)
    return Support::no(text("it takes head dims of ", least_dim, " or more; this problem has ",
                            std::min(p.qk_dim, p.v_dim)));
  if (const Support fit = gpu::lengths_fit(p, most_length); !fit) return fit;
  if (const Support fit = gpu::rows_fit(p, device); !fit) return fit;
  return gpu::splits_fit(p, device, {.rows = tiles_of(p).rows(), .splits = 1});
}

// A step is a tile of keys; multiprocessors take blocks one after another.
Estimate estimate(const Task& task) {
  const Problem& p = task.problem;
  const TileConfig tiles = tiles_of(p);
  const double row_tiles = double(std::max<Index>(gpu::tiles_of_rows(p, tiles.rows()), 1));
  const double queries = double(tiles.rows() * p.kv_heads) / double(p.heads);
  return gpu::WaveModel(task.device, gpu::reach_of(task.device).wgmma_tf32x3,
                        {.blocks = double(p.batch * p.kv_heads) *
                                   std::max(1.0, row_tiles * gpu::filled_tiles(p)),
                         .keys = gpu::average_keys(p, queries),
                         .most_keys = double(gpu::expected_keys(p)),
                         .uneven = gpu::is_uneven(p),
                         .step_keys = double(tiles.keys),
                         .step_flops = 4.0 * tiles.dim * tiles.keys * tiles.rows(),
                         .flops_per_second = task.device.nominal.matrix_flops,
                         .bytes = p.bytes(),
                         .dim = tiles.dim,
                         .score_mod = gpu::has_score_mod(p) || p.dropout > 0,
                         .paged = p.paged()})
      .whole();
}

std::size_t workspace(const Task&) { return 0; }

std::unique_ptr<const Prepared> prepare(const Task& task) {
  std::unique_ptr<const Prepared> result;
  with_tiles(task.problem, [&]<TileConfig tiles>() {
    const gpu::PlannedSplits planned(
        task.problem, {.rows = tiles.rows(), .splits = 1, .chunk_step = tiles.keys}, 0);
    result = prepared([task, planned](const semantics::Call& call, const Launch& where_to) {
      launch<tiles>(planned.parameters(call, where_to, planned.splits), gpu::where(task, where_to));
    });
  });
  return result;
}

}  // namespace
}  // namespace cuda::flash_wgmma_f32

const Kernel cuda_flash_wgmma_f32 = {
    .name = "cuda.flash_wgmma_f32",
    .summary = "Hopper: f32 in three products of TF32, by whole warpgroups",
    .backend = Backend::cuda,
    .by_name_only = false,
    .supports = cuda::flash_wgmma_f32::supports,
    .configs = one_empty_config,
    .estimate = cuda::flash_wgmma_f32::estimate,
    .workspace = cuda::flash_wgmma_f32::workspace,
    .prepare = cuda::flash_wgmma_f32::prepare,
};

}  // namespace rapt
