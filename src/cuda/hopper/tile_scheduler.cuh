// The tile scheduler of a persistent kernel: a thread of each block finds its next work tile while
// the others are at the last, and leaves in shared memory what they need to know of it.
//
//   scheduler   info 0 ─▶ full   …   info 1 ─▶ full   …
//                                ▲
//   a producer  wait(0) … load … ask   wait(1) …
//   others      wait(0) …              wait(1) …
//
// A block asks when its work tile is nearly loaded: asked earlier, the longest ones would be given
// away before it is known who is free.
#pragma once

#include "src/cuda/hopper/pipeline.cuh"
#include "src/cuda/target.cuh"

namespace rapt::cuda::hopper {

// The barriers of the last `stages` work tiles' infos, counted from 0 on; the infos themselves are
// an array beside them. Nobody says when they are done with one: those who read must never be as
// many work tiles apart as there are stages.
template <int stages>
struct TileInfoRing {
  ptx::Barrier wanted;  // a phase for each work tile but the first
  ptx::Barrier full[stages];

  RAPT_DEVICE void initialize() {
    wanted.initialize(1);
    for (int i = 0; i < stages; ++i) full[i].initialize(1);
  }

  RAPT_DEVICE void ask() { wanted.arrive(); }
  RAPT_DEVICE void wait(PipelineState<stages> pipe) { full[pipe.index].wait(pipe.phase); }
};

// Blocks take every so manieth work tile where all take the same time, else whichever is next by
// the time they ask: `counter` is 0 before the launch, or null. (Both parameters are read where
// they are used: the thread has no registers for them.) find(index, info) is false for one that has
// nothing to do. An Info has set_none(), for when there are no more.
template <class Info, int stages, class Find>
RAPT_DEVICE void schedule_tiles(Info (&infos)[stages], TileInfoRing<stages>& ring,
                                const int& work_tiles, int* const& counter, Find find) {
  const auto after = [&](int index) {
    const int blocks = static_cast<int>(gridDim.x);
    return counter ? blocks + atomicAdd(counter, 1) : index + blocks;
  };
  int index = Target::block_x();
  for (int number = 0;; ++number) {
    if (number > 0) {
      ring.wanted.wait((number - 1) & 1);
      index = after(index);
    }
    Info& info = infos[ring_index<stages>(number)];
    info.set_none();
    for (; index < work_tiles; index = after(index))
      if (find(index, info)) break;
    ring.full[ring_index<stages>(number)].arrive();
    if (index >= work_tiles) return;
  }
}

}  // namespace rapt::cuda::hopper
