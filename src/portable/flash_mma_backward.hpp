// flash_mma_backward on the host: what it takes, how long it should take and which tiles a call
// gets, on any backend with matrix units. A backend compiles the device code of
// src/gpu/flash_mma_backward for its Target and says how it is launched.
#pragma once

#include "src/core/kernel.hpp"
#include "src/gpu/flash_backward.hpp"
#include "src/gpu/flash_mma_backward/tile_config.hpp"

namespace rapt::gpu::flash_mma_backward {

// Launches D, then the tiles of dq, dk and dv, then what flash_backward has beside them.
using LaunchTiles = void (*)(const TileConfig&, const FlashBackwardParameters&, Where);

// The tiles of dq, dk and dv, for the element type that the parameters and the products say.
template <class Launcher, TileConfig config>
void launch(const FlashBackwardParameters& parameters, Where where);

inline constexpr std::string_view summary =
    "flash_backward on tensor cores since Ampere; f32 in three products of TF32";
Support supports(const Problem& problem, const Device& device);
Estimate estimate(const Task& task);
std::size_t workspace(const Task& task);
std::unique_ptr<const Prepared> prepare(LaunchTiles launch_tiles, const Task& task);

}  // namespace rapt::gpu::flash_mma_backward
