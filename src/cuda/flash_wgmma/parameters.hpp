// What a launch of flash_wgmma is given.
#pragma once

#include <cuda.h>

#include "rapt/dtype.hpp"
#include "src/gpu/divisor.hpp"
#include "src/semantics/call.hpp"

namespace rapt::cuda::flash_wgmma {

// Work tiles, the tiles of queries, in the order they are begun. Heads go in L2 groups whose keys
// and values stay in the L2 cache together; within an L2 group the last queries come first, which
// take longest under a causal mask. An L2 group that is smaller than the others is the first one:
// in the end it would leave multiprocessors idle while others begin the longest. Packed sequences
// of very different lengths are one row of tiles instead, `varlen_tiles` of them for each head:
// most tiles of the longest one the others would not have.
struct Schedule {
  gpu::Divisor packed_heads;       // query heads that share a tile: its rows are (query, head)
  gpu::Divisor heads;              // or groups of packed heads
  gpu::Divisor heads_per_kv_head;  // heads, or groups of them, that share a kv head
  gpu::Divisor first_l2_group;     // heads of all sequences in it
  gpu::Divisor l2_group;           // in each of the others
  gpu::Divisor l2_group_tiles;     // of those
  int tiles;                       // of queries, of one head and sequence
  int varlen_tiles;  // for tiles of queries, of one head and all sequences; 0: not in one row
  int queries;       // of a warpgroup
  int work_tiles;
};

// Of queries and of keys, and of offsets.
inline constexpr semantics::Index most_length = semantics::Index{1} << 30;

struct Parameters {
  semantics::Call call;
  Schedule schedule;
  float scale;         // from dot products to exponents of 2
  float share_of_cap;  // that a dot product of 1 is, where there is a soft cap
  bool only_capped;    // dot products only pass through it, and three terms can do for it
  int* tile_counter;   // 0 before the launch: work tiles begun by blocks that came to ask.
                       // Null: work tiles are even
  DType dtype;
  bool bias_by_tma;  // by TMA, else read where it is needed
  gpu::Divisor page_size;
  int box_keys;        // that one load brings: of a page, where there are pages
  bool output_by_tma;  // by TMA, but for the ends of packed sequences
  CUtensorMap queries, keys, values, biases, output;
};

}  // namespace rapt::cuda::flash_wgmma
