// The storers: warps that add the block's parts of dq to the sums in memory, each when its turn has
// come (order.cuh). The first one to come stores instead, so that nothing need be cleared. Each
// takes every other of the parts that a warpgroup hands over, so that one can wait for its addition
// to be made while the next one's begins: every other step, or of each step one of two parts.
//
// A tile of dq lies there as warpgroups hold it, part after part: (part, 8 columns, thread, 4).
#pragma once

#include "src/cuda/flash_wgmma_backward/shared_storage.cuh"
#include "src/cuda/ptx/bulk_copy.cuh"
#include "src/cuda/ptx/counter.cuh"

namespace rapt::cuda::flash_wgmma_backward {

template <TileConfig config>
class Storer {
 public:
  RAPT_DEVICE Storer(const Parameters& p, SharedStorage<config>& shared, int number)
      : p_(p), shared_(shared), number_(number), participants_(shared.participants[number]) {}

  RAPT_DEVICE void run() {
    const semantics::Call& call = p_.common.call;
    const int group = static_cast<int>(call.heads / call.kv_heads);
    WorkTiles<config> work_tiles(p_);
    WorkTile work;
    int step = 0;
    while (work_tiles.next(work)) {
      if (work.walk.count == 0) continue;
      note_participants(work, group);
      const Turn turn(p_.schedule, work.key_tile);
      // Of the group's first head and the first tile of queries.
      const Index first_head = Index{work.kv_head} * group;
      float* sums = p_.rows.dq +
                    (first_head * p_.rows.tiles + first_tile(call, work.sequence, config.queries)) *
                        tile_numbers;
      uint32_t* counters = counters_of<config>(p_, work.sequence.index, first_head, 0);
      for (int head = 0; head < group; ++head) {
        for (int i = 0; i < work.walk.count; ++i, ++step) {
          const int part = parts == 1 ? 0 : number_;
          const int handed_over = step * parts + part;
          if (hopper::ring_index<config.storers>(handed_over) != number_) continue;
          const int tile = work.walk.tile(i);
          const int order = additions_of_earlier_laps<config>(p_, work.sequence, turn.lap, tile) +
                            additions_of_this_lap(turn.position, head, i, tile);
          if (Target::lane() == 0)
            add(sums + Index{tile} * tile_numbers + part * dq_part_numbers,
                counters + tile * parts + part, order, handed_over);
          __syncwarp();
        }
        sums += Index{p_.rows.tiles} * tile_numbers;
        counters += p_.schedule.query_tiles * parts;
      }
    }
  }

 private:
  static constexpr int tile_numbers = config.queries * config.dim;
  static constexpr int parts = config.parts_of_warpgroup();
  static_assert(parts == 1 || parts == config.storers);

  // All of the work tile's lap, by their positions.
  RAPT_DEVICE void note_participants(const WorkTile& work, int group) {
    const Lap<config> lap(p_, work, group);
    __syncwarp();
    for (int i = Target::lane(); i < lap.participants(); i += 32) {
      participants_[i].walk = lap.walk(i);
      participants_[i].start = lap.start(i);
    }
    __syncwarp();
  }

  // How many of the lap add to a tile before the one at `position` does in its step-th step along
  // the group's head-th head.
  RAPT_DEVICE int additions_of_this_lap(int position, int head, int step, int tile) const {
    const int time = participants_[position].time(head, step);
    unsigned before = 0;
    for (int i = Target::lane(); i < 2 * p_.schedule.members; i += 32) {
      const Participant& other = participants_[i];
      if (!other.walk.meets(tile)) continue;
      before += other.adds_before(i, head, tile, position, time);
    }
    return static_cast<int>(__reduce_add_sync(Target::all_lanes, before));
  }

  // Of every warpgroup the part with this number. By one thread.
  RAPT_DEVICE void add(float* sums, uint32_t* counter, int order, int handed_over) {
    const hopper::PipelineState<config.storers> pipe(handed_over);
    ptx::wait_for_count(counter, static_cast<uint32_t>(order));
    RAPT_UNROLL
    for (int group = 0; group < config.warpgroups; ++group) {
      shared_.dq_rings[group].wait_full(pipe);
      const unsigned char* const from =
          shared_.dq[hopper::ring_index<config.dq_buffers>(handed_over)][group];
      float* const to = sums + group * parts * dq_part_numbers;
      if (order == 0)
        ptx::bulk_store(to, from, dq_part_bytes);
      else
        ptx::bulk_add(to, from, dq_part_bytes);
    }
    ptx::bulk_commit();
    ptx::bulk_wait_read();
    for (auto& ring : shared_.dq_rings) ring.free[pipe.index].arrive();
    ptx::bulk_wait();
    ptx::count_up(counter);
  }

  const Parameters& p_;
  SharedStorage<config>& shared_;
  const int number_;
  Participant (&participants_)[2 * most_members];  // its own
};

}  // namespace rapt::cuda::flash_wgmma_backward
