// Which tiles of queries a block takes, in which order, and what their warpgroups need to know.
//
// A warp of its own finds out, and leaves Assignments in shared memory.
#pragma once

#include "src/cuda/flash_wgmma/parameters.hpp"
#include "src/cuda/flash_wgmma/shared.cuh"
#include "src/cuda/target.cuh"

namespace rapt::cuda::flash_wgmma {

using semantics::Index;

// A tile of queries from `first` on, of one sequence. Heads are numbered in groups of packed ones.
struct Work {
  semantics::Sequence sequence;
  int head, first;
};

// The first slot of a sequence. Each has at least one more than its queries fill, so that where it
// begins does not depend on how the queries before it are shared out. A start that is wrong is
// brought into the tensor, as semantics::sequence() does: no tile begins before its sequence.
RAPT_DEVICE int first_slot(const Parameters& p, int sequence, int queries) {
  if (sequence == 0) return 0;
  const Index start = semantics::clamp(p.call.q_starts[sequence], 0, p.call.total_q);
  return static_cast<int>(start) / queries + sequence;
}
RAPT_DEVICE Work work_in_slot(const Parameters& p, int slot, int head, int queries) {
  int sequence = 0, end = static_cast<int>(p.call.batch);
  while (end - sequence > 1) {
    const int middle = sequence + (end - sequence) / 2;
    (first_slot(p, middle, queries) <= slot ? sequence : end) = middle;
  }
  return {semantics::sequence(p.call, sequence), head,
          (slot - first_slot(p, sequence, queries)) * queries};
}

RAPT_DEVICE Work work_at(const Parameters& p, int index, int queries) {
  const Schedule& s = p.schedule;
  if (s.slots > 0) {
    const int before = s.heads.quotient(index);
    return work_in_slot(p, s.slots - 1 - before, index - before * s.heads.value, queries);
  }
  const int after_first = index - s.first_section.value * s.tiles;
  int first = 0, within = index;  // the section's first pair, and the work's place in the section
  gpu::Divisor heads = s.first_section;
  if (after_first >= 0) {
    const int section = s.section_works.quotient(after_first);
    first = s.first_section.value + section * s.section.value;
    within = after_first - section * s.section_works.value;
    heads = s.section;
  }
  const int level = heads.quotient(within);
  const int pair = first + within - level * heads.value;
  const int sequence = s.heads.quotient(pair);
  return {semantics::sequence(p.call, sequence), pair - sequence * s.heads.value,
          (s.tiles - 1 - level) * queries};
}

// A position far outside the keys comes nearer, so that 32 bits have room for its distance to any:
// keys may lie as far as most_length on the other side.
RAPT_DEVICE int within_lengths(Index position) {
  return static_cast<int>(semantics::clamp(position, -most_length / 2, most_length));
}

RAPT_DEVICE Assignment assignment_of(const Parameters& p, const Work& work, int warpgroups,
                                     int keys) {
  const semantics::Sequence& sequence = work.sequence;
  const int queries = warpgroups * p.schedule.queries;
  const Index left = sequence.q_len - work.first, position = work.first + sequence.offset;
  const semantics::Range some = semantics::keys_of_some(
      p.call.window, position, position + semantics::smaller(queries, left) - 1, sequence.kv_len);
  const semantics::Range seen = semantics::keys_of_some(
      p.call.window, sequence.offset, sequence.offset + sequence.q_len - 1, sequence.kv_len);
  const semantics::Place query = semantics::query_place(p.call, sequence, work.first);
  const semantics::Place key =
      p.call.page_table ? semantics::Place{} : semantics::key_place(p.call, sequence, 0);
  const int first_tile = static_cast<int>(some.begin) / keys;
  Assignment assignment = {
      .tile = some.begin < some.end ? (static_cast<int>(some.end) - 1) / keys : first_tile,
      .first_tile = first_tile,
      .left = static_cast<int>(left),
      .position = static_cast<int>(position),
      .sees_from =
          within_lengths(p.call.window.has_left ? position - p.call.window.left : -most_length),
      .sees_to = within_lengths(p.call.window.has_right ? position + p.call.window.right + 1
                                                        : most_length),
      .head = work.head,
      .row = static_cast<int>(query.row),
      .outer = static_cast<int>(query.outer),
      .sequence = static_cast<int>(sequence.index),
      .first = work.first,
      .kv_len = static_cast<int>(sequence.kv_len),
      .kv_head = p.schedule.sharing.quotient(work.head),
      .key_row = static_cast<int>(key.row),
      .key_outer = static_cast<int>(key.outer),
      .seen_begin = static_cast<int>(seen.begin),
      .seen_end = static_cast<int>(seen.end),
  };
  for (int group = 0; group < warpgroups; ++group) {
    const Index first = position + group * p.schedule.queries;
    const Index last = first + p.schedule.queries - 1;
    const semantics::Range any =
        semantics::keys_of_some(p.call.window, first, last, sequence.kv_len);
    const semantics::Range all =
        semantics::keys_of_all(p.call.window, first, last, sequence.kv_len);
    assignment.of[group] = {
        .passed_over = assignment.tile > first_tile && any.end <= Index{assignment.tile} * keys,
        .whole_begin = (static_cast<int>(all.begin) + keys - 1) / keys,
        .whole_end = static_cast<int>(all.end) / keys,
    };
  }
  return assignment;
}

// The number-th work of the block, for those who load and store. They and the warpgroups are never
// as many works apart as there are slots.
template <TileConfig config>
RAPT_DEVICE const Assignment& wait_for_assignment(Shared<config>& shared, int number) {
  const Slot<assignment_slots> slot(number);
  shared.assignment_there[slot.at].wait(slot.parity);
  return shared.assignments[slot.at];
}

// A row of a tile of queries: its query, counted from the tile's first, if it has one at all.
struct RowPlace {
  bool exists;
  int query;
  semantics::Place place;
  Index head;
};
RAPT_DEVICE RowPlace row_place(const Parameters& p, const Assignment& assignment, int group,
                               int row) {
  const gpu::Divisor& packed = p.schedule.packed;
  const int within = packed.quotient(row), query = group * p.schedule.queries + within;
  return {within < p.schedule.queries && query < assignment.left,
          query,
          {assignment.outer, assignment.row + query},
          assignment.head * packed.value + row - within * packed.value};
}

// Whether the copy engine takes the output of a warpgroup. Where a packed sequence ends within its
// rows, it would write behind that end, where another may begin.
RAPT_DEVICE bool output_is_copied(const Parameters& p, const Assignment& assignment, int group) {
  return p.output_copied &&
         (!p.call.q_starts || (group + 1) * p.schedule.queries <= assignment.left);
}

// The thread that decides which works the block takes: every so manieth where all take the same
// time, else whichever is next when the block comes to ask. That is when its last work is nearly
// loaded: asked earlier, the longest works would be given away before it is known who is free.
template <TileConfig config>
class Scheduler {
 public:
  RAPT_DEVICE Scheduler(const Parameters& p, Shared<config>& shared) : p_(p), shared_(shared) {}

  RAPT_DEVICE void run() {
    int index = Target::block_x();
    for (int number = 0;; ++number) {
      if (number > 0) {
        shared_.assignment_wanted.wait((number - 1) & 1);
        index = after(index);
      }
      Assignment& assignment = shared_.assignments[turn<assignment_slots>(number)];
      assignment.left = 0;
      for (; index < p_.schedule.works; index = after(index)) {
        const Work work = work_at(p_, index, config.warpgroups * p_.schedule.queries);
        if (work.first >= work.sequence.q_len) continue;  // a shorter sequence
        assignment = assignment_of(p_, work, config.warpgroups, config.keys);
        break;
      }
      shared_.assignment_there[turn<assignment_slots>(number)].arrive();
      if (index >= p_.schedule.works) return;
    }
  }

 private:
  RAPT_DEVICE int after(int index) const {
    const int blocks = static_cast<int>(gridDim.x);
    return p_.counter ? blocks + atomicAdd(p_.counter, 1) : index + blocks;
  }

  const Parameters& p_;
  Shared<config>& shared_;
};

}  // namespace rapt::cuda::flash_wgmma
