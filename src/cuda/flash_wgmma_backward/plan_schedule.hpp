// How many blocks share the key tiles of a (sequence, kv head) pair: see schedule.cuh for what they
// do.
#pragma once

#include "rapt/rapt.hpp"
#include "src/cuda/flash_wgmma_backward/parameters.hpp"
#include "src/cuda/flash_wgmma_backward/tile_config.hpp"

namespace rapt::cuda::flash_wgmma_backward {

// The one that should be done first. Problems that ask for batch invariance get teams of one block,
// whose order of additions no other sequence has a part in.
Schedule plan_schedule(const Problem& problem, const TileConfig& tiles, int multiprocessors);

}  // namespace rapt::cuda::flash_wgmma_backward
