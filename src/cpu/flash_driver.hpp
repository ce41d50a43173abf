// Flash attention over a matrix engine: what cpu.flash, cpu.flash_amx and cpu.flash_bf16 share.
#pragma once

#include "src/core/kernel.hpp"
#include "src/cpu/engine.hpp"

namespace rapt {

// A block of `rows` queries of one head meets `keys` keys at a time: the config of these kernels.
struct FlashTiles {
  semantics::Index rows, keys;
};

// What an engine reaches on whole row groups: products in flop/s; a weight and a packed element in
// flops that take as long on the vector units.
struct FlashRates {
  double product_flops;
  double flops_per_weight, flops_per_packed_element;
};

Estimate flash_estimate(const Task& task, const Engine& engine, FlashRates rates);
Support flash_support(const Problem& problem, const Device& device, const Engine& engine,
                      FlashTiles largest);
std::size_t flash_workspace(const Task& task, const Engine& engine);
std::unique_ptr<const Prepared> prepare_flash(const Task& task, const Engine& engine);

}  // namespace rapt
