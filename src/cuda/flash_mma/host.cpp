// cuda.flash_mma as the registry knows it: what it takes, how long it should take, and which tiles
// a call gets.
#include <algorithm>
#include <cstdlib>

#include "src/core/call.hpp"
#include "src/core/text.hpp"
#include "src/cuda/flash_mma/parameters.hpp"
#include "src/cuda/kernels.hpp"
#include "src/gpu/rows.hpp"
#include "src/portable/common.hpp"

namespace rapt {
namespace cuda::flash_mma {

// One line for each .cu file.
#define RAPT_COMPILED_ELSEWHERE(products, dim)                                           \
  extern template void launch<tiles_for(products, dim)>(const Parameters&, gpu::Where);  \
  extern template void launch<with_scoring(tiles_for(products, dim))>(const Parameters&, \
                                                                      gpu::Where);
RAPT_COMPILED_ELSEWHERE(Products::tf32x3, 32)
RAPT_COMPILED_ELSEWHERE(Products::tf32x3, 64)
RAPT_COMPILED_ELSEWHERE(Products::tf32x3, 128)
RAPT_COMPILED_ELSEWHERE(Products::tf32x3, 256)
RAPT_COMPILED_ELSEWHERE(Products::tf32, 32)
RAPT_COMPILED_ELSEWHERE(Products::tf32, 64)
RAPT_COMPILED_ELSEWHERE(Products::tf32, 128)
RAPT_COMPILED_ELSEWHERE(Products::tf32, 256)
RAPT_COMPILED_ELSEWHERE(Products::sixteen, 32)
RAPT_COMPILED_ELSEWHERE(Products::sixteen, 64)
RAPT_COMPILED_ELSEWHERE(Products::sixteen, 128)
RAPT_COMPILED_ELSEWHERE(Products::sixteen, 256)
#undef RAPT_COMPILED_ELSEWHERE

namespace {

using gpu::Index;

constexpr Index most_dim = 256, most_length = 1000000000;
// Of f32. What three products leave out of a single one shows where nothing is summed.
constexpr Index least_dim = 8;

Products products_of(const Problem& p) {
  if (p.dtype != DType::f32) return Products::sixteen;
  return p.tf32 ? Products::tf32 : Products::tf32x3;
}

bool has_scoring(const Problem& p) {
  return p.bias.present() || p.mask.present() || p.alibi || p.softcap > 0;
}

TileConfig tiles_of(const Problem& p) {
  return tiles_for(products_of(p), static_cast<int>(std::max(p.qk_dim, p.v_dim)));
}

double blocks_of(const Problem& p) {
  return double(semantics::divided_up(p.q_len, tiles_of(p).rows())) * double(p.heads) *
         double(p.batch);
}

// Features name the architecture, as in "sm_90".
bool is_ampere_or_later(const Device& device) {
  constexpr std::string_view prefix = "sm_";
  const std::string& features = device.features;
  return features.starts_with(prefix) && std::atoi(features.c_str() + prefix.size()) >= 80;
}

Support supports(const Problem& p, const Device& device) {
  if (!is_ampere_or_later(device))
    return Support::no(text("it needs a GPU since Ampere, sm_80; this is ", device.features));
  if (std::max(p.qk_dim, p.v_dim) > most_dim) return gpu::refuse_dim(p, most_dim);
  if (products_of(p) == Products::tf32x3 && std::min(p.qk_dim, p.v_dim) < least_dim)
    return Support::no(text("it takes f32 with head dims of ", least_dim,
                            " or more; this problem has ", std::min(p.qk_dim, p.v_dim)));
  if (std::max({p.q_len, p.kv_len, p.total_q, p.total_kv, p.page_size}) > most_length)
    return Support::no(text("it takes lengths and pages up to ", most_length));
  if (p.offset && (*p.offset > most_length || *p.offset < -most_length))
    return Support::no(
        text("it takes offsets up to ", most_length, "; this problem has ", *p.offset));
  return gpu::blocks_fit(blocks_of(p), device);
}

// What its products reach of the tensor cores' rate for f16, per flop of the problem.
double efficiency(const Problem& p, const TileConfig& tiles) {
  const double scoring = has_scoring(p) ? 0.5 : 1.0;
  switch (tiles.products) {
    case Products::tf32x3: return scoring * (tiles.dim <= 32 ? 0.048 : 0.058);
    case Products::tf32: return scoring * (tiles.dim <= 32 ? 0.08 : 0.12);
    default: return scoring * (tiles.dim <= 32 ? 0.2 : 0.3);
  }
}

// Whole tiles of queries and the padded head dim, in rounds of blocks.
Estimate estimate(const Task& task) {
  const Problem& p = task.problem;
  const TileConfig tiles = tiles_of(p);
  const double rows = double(std::max<Index>(p.q_len, 1));
  const double padding = double(semantics::rounded_up(p.q_len, tiles.rows())) / rows *
                         (2.0 * tiles.dim) / double(std::max<Index>(p.qk_dim + p.v_dim, 1));
  const double unit = task.device.nominal.matrix_flops / task.device.nominal.f32_flops;
  return gpu::compute_estimate(task, p.flops() * padding, efficiency(p, tiles) * unit, blocks_of(p),
                               1);
}

std::size_t workspace(const Task&) { return 0; }

template <Products products, class Function>
void with_dim(Index dim, Function function) {
  gpu::with_one_of<32, 64, 128, 256>(
      dim, [&]<int bucket>() { function.template operator()<tiles_for(products, bucket)>(); });
}

template <class Function>
void with_tiles(const Problem& p, Function function) {
  const Index dim = std::max(p.qk_dim, p.v_dim);
  switch (products_of(p)) {
    case Products::tf32x3: return with_dim<Products::tf32x3>(dim, function);
    case Products::tf32: return with_dim<Products::tf32>(dim, function);
    case Products::sixteen: return with_dim<Products::sixteen>(dim, function);
  }
}

void run(const Task& task, const Arguments& arguments, const Launch& launch_arguments) {
  const Problem& p = task.problem;
  const Parameters parameters = {
      .call = make_call(p, arguments),
      .dtype = p.dtype,
      .aligned = p.alignment == gpu::access_bytes,
      .page_size = gpu::divisor(std::max<Index>(p.page_size, 1)),
  };
  with_tiles(p, [&]<TileConfig tiles>() {
    if (has_scoring(p))
      launch<with_scoring(tiles)>(parameters, gpu::where(task, launch_arguments));
    else
      launch<tiles>(parameters, gpu::where(task, launch_arguments));
  });
}

}  // namespace
}  // namespace cuda::flash_mma

const Kernel cuda_flash_mma = {
    .name = "cuda.flash_mma",
    .summary = "online softmax on tensor cores since Ampere; f32 in three products of TF32",
    .backend = Backend::cuda,
    .by_name_only = false,
    .supports = cuda::flash_mma::supports,
    .configs = one_empty_config,
    .estimate = cuda::flash_mma::estimate,
    .workspace = cuda::flash_mma::workspace,
    .run = cuda::flash_mma::run,
};

}  // namespace rapt
