// The host side of gemm, for any backend that has a library to multiply matrices with.
#pragma once

#include "src/core/kernel.hpp"
#include "src/gpu/gemm.hpp"

namespace rapt::gpu {

// What a backend's kernel is made of. Its own supports() may refuse more, and what it prepares
// calls the last two functions with its launch and its library.
struct GemmHost {
  static constexpr std::string_view summary =
      "the traditional path: a library's matrix products, every score stored between them";
  static Support supports(const Problem&, const Device&);
  static std::vector<Config> configs(const Problem&, const Device&);
  static Estimate estimate(const Task&);
  static std::size_t workspace(const Task&);
  // The part of the workspace that is the library's own. `items`: of a pass, as configured.
  static std::span<std::byte> library_workspace(const Task&, Index items, const semantics::Call&,
                                                const Launch&);
  static void run(void (*launch_pass)(const GemmParameters&, const Products&, Where),
                  const Products&, const Task&, Index items, const semantics::Call&, const Launch&);
};

}  // namespace rapt::gpu
