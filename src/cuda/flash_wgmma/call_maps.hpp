// The tensors of a call as TMA sees them, and which ones it can see.
#pragma once

#include "rapt/rapt.hpp"
#include "src/cuda/flash_wgmma/parameters.hpp"
#include "src/gpu/launch.hpp"

namespace rapt::cuda::flash_wgmma {

using gpu::Index;

inline constexpr Index most_pages = Index{1} << 31;

// Whether TMA can take the output: of 16 bits, in whole pieces of 16 bytes.
bool output_can_go_by_tma(const Problem& problem);
// Whether TMA can bring the biases of a tile, if they are aligned: they are of 16 bits, those of a
// query contiguous, and its rows are those of the tile.
bool bias_can_come_by_tma(const Problem& problem, int packed_heads);

// Of queries or output: rows of a warpgroup.
CUtensorMap map_of_rows(const semantics::Call& call, DType dtype, const Schedule& schedule,
                        const void* data, Index dim, const Index (&stride)[3]);
// Of keys or values, so many a box. Where there are none, of anything: nobody sees it.
CUtensorMap map_of_keys(const semantics::Call& call, DType dtype, const void* data, Index dim,
                        const Index (&stride)[3], int rows);
CUtensorMap map_of_bias(const semantics::Call& call, DType dtype);

// Makes maps fit a call's own tensors, of the sizes they were made for.
void move_maps(Parameters& parameters, const semantics::Call& call);

}  // namespace rapt::cuda::flash_wgmma
