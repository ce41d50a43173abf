// Which of the tiles that flash_wgmma is compiled for a problem gets.
#pragma once

#include <algorithm>

#include "src/cuda/flash_wgmma/launch.hpp"
#include "src/portable/common.hpp"

namespace rapt::cuda::flash_wgmma {

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

inline constexpr int rows_of_warpgroup = 64;

// The least tiles that hold the head dims. What does not depend on the batch keeps a row's bits.
template <class Function>
auto with_tiles(const Problem& p, Function function) {
  const gpu::Index dim = std::max(p.qk_dim, p.v_dim);
  const bool any_length = p.batch_invariant && p.bounded();  // q_len is other sequences', too
  if (gpu::is_general(p)) {
    if (dim <= 64) return function.template operator()<with_score_mod(tiles_64_short)>();
    if (dim <= 96) return function.template operator()<with_score_mod(tiles_96)>();
    if (dim <= 128) return function.template operator()<with_score_mod(tiles_128)>();
    if (p.qk_dim <= 192 && p.v_dim <= 128)
      return function.template operator()<with_score_mod(tiles_192_128)>();
    if (dim <= 192) return function.template operator()<with_score_mod(tiles_192)>();
    return function.template operator()<with_score_mod(tiles_256)>();
  }
  if (dim <= 32) return function.template operator()<tiles_32>();
  if (dim <= 64 && gpu::is_uneven(p) && p.q_len <= 1024 && !any_length)
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

inline TileConfig tiles_of(const Problem& p) {
  return with_tiles(p, []<TileConfig config>() { return config; });
}

}  // namespace rapt::cuda::flash_wgmma
