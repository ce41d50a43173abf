// flash_mma on the host: what it takes, how long it should take, and which tiles and splits a call
// gets, on any backend with matrix units. A backend compiles the device code of src/gpu/flash_mma
// for its Target and says how it is launched.
#pragma once

#include "src/core/kernel.hpp"
#include "src/gpu/flash_mma/parameters.hpp"

namespace rapt::gpu::flash_mma {

// Launches the tiles and, where keys are split, split_kv's second kernel.
using LaunchTiles = void (*)(TileConfig, const Parameters&, Where);

inline constexpr std::string_view summary =
    "online softmax on tensor cores since Ampere; f32 in three products of TF32";
Support supports(const Problem& problem, const Device& device);
std::vector<Config> configs(const Problem& problem, const Device& device);  // best guess first
Estimate estimate(const Task& task);
std::size_t workspace(const Task& task);
std::unique_ptr<const Prepared> prepare(LaunchTiles launch_tiles, const Task& task);

}  // namespace rapt::gpu::flash_mma
