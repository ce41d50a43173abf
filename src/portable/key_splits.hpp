// Kernels that split keys, on the host: how many chunks there can be, what memory their partial
// results take, and what a launch is given (src/gpu/split_kv_parameters.hpp).
#pragma once

#include <algorithm>

#include "src/core/kernel.hpp"
#include "src/gpu/split_kv_parameters.hpp"
#include "src/portable/common.hpp"

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
// The same on average, of a tile of so many queries: on a diagonal it sees more than a row does.
double average_keys(const Problem& problem, double queries);
// Chunks of a tile at most, whatever the lengths of sequences are.
Index most_chunks(const Problem& problem, Index splits);

// Room for partial results, (row, chunk). A problem of fixed sizes needs it for the splits it is
// planned with. One whose sizes are bounds has batches with fewer rows, which are split further, up
// to `filling` results: those of the blocks that a chip is filled with. That depends on nothing
// but the bounds, and grows with them.
Index room_for_partials(const Problem& problem, Index splits, Index filling);
// Splits that room has for the rows of a run; 1 or more.
Index splits_in_room(const Problem& problem, Index room);
std::size_t bytes_of_partials(const Problem& problem, Index room);
// Those of one chunk of every row, for estimates.
double bytes_of_chunk(const Problem& problem);
// Of a block of split_kv's two kernels: each takes a key, or a chunk's partial result, at a time.
Index lane_groups_of(const Problem& problem);
// The splits from 1 to `most` that take the least time.
struct BestSplits {
  Index splits;
  double seconds;
};
BestSplits best_splits(const WaveModel& model, Index most);

// A refusal if rows or keys are too many to number.
Support rows_fit(const Problem& problem, const Device& device);
// A refusal if, rows and keys being few enough, there are too many blocks of so many splits.
Support splits_fit(const Problem& problem, const Device& device, const KeySplits& cut);

// What all launches of a plan are given, and the room they have for partial results.
struct PlannedSplits {
  SplitKvParameters shared;  // with the sizes of the problem, which most runs have
  Index splits, room;

  PlannedSplits(const Problem& problem, const KeySplits& cut, Index room);
  // Those of one run.
  SplitKvParameters parameters(const semantics::Call& call, const Launch& launch,
                               Index splits_of_run) const;
};

// Splits of a run: as planned, or, where it has less than the problem's bounds allow, what suits
// it. The chip takes `at_once` blocks. model_of(problem) says what a run would take.
template <class ModelOf>
Index splits_of_run(const PlannedSplits& planned, const Problem& problem,
                    const semantics::Call& call, Index at_once, ModelOf model_of) {
  if (planned.room == 0 || is_full(problem, call) || problem.batch_invariant) return planned.splits;
  const Problem run = problem_of_run(problem, call);
  const WaveModel model = model_of(run);
  const Index blocks =
      call.batch * call.kv_heads * tiles_of_rows(run, planned.shared.rows.value);  // of one split
  const Index most = most_chunks(run, splits_in_room(run, planned.room));
  Index best = 1;
  double least = model.with(1).seconds;
  const auto consider = [&](Index splits) {
    splits = std::clamp<Index>(splits, 1, most);
    const double time = splits == best ? least : model.with(double(splits)).seconds;
    if (time >= least) return;
    best = splits;
    least = time;
  };
  consider(planned.splits);
  // Those that fill the chip a whole number of times.
  constexpr Index most_rounds = 4;
  for (Index round = 1; round <= most_rounds; ++round)
    consider(round * at_once / std::max<Index>(blocks, 1));
  return best;
}

}  // namespace rapt::gpu
