// Kernels that split keys, on the host: how many chunks there can be, what memory their partial
// results take, and what a launch is given (src/gpu/split_kv_parameters.hpp).
#pragma once

#include "src/core/kernel.hpp"
#include "src/gpu/split_kv_parameters.hpp"

namespace rapt::gpu {

// How the rows of a kv head, (query, head of its group), and the keys are cut.
struct KeySplits {
  Index rows;            // of a tile
  Index splits;          // of a tile's keys, unless chunks would get too short
  Index chunk_step = 1;  // keys of a chunk are a multiple of it
};

// Bits of batch-invariant problems must not depend on the batch: this many splits.
inline constexpr Index splits_of_any_batch = 32;

// Tiles of a kv head and sequence, at most.
Index tiles_of_rows(const Problem& problem, Index rows);
// Keys that a tile may be expected to see.
Index expected_keys(const Problem& problem);
// Chunks of a tile at most, whatever the lengths of sequences are.
Index most_chunks(const Problem& problem, Index splits);
// For partial results; 0 if there can be but one chunk.
std::size_t bytes_of_partials(const Problem& problem, Index splits);

// A refusal if rows or keys are too many to number.
Support rows_fit(const Problem& problem, const Device& device);
// A refusal if, rows and keys being few enough, there are too many blocks of so many splits.
Support splits_fit(const Problem& problem, const Device& device, const KeySplits& cut);

SplitKvParameters split_kv_parameters(const Problem& problem, const Arguments& arguments,
                                      const Launch& launch, const KeySplits& cut);

}  // namespace rapt::gpu
