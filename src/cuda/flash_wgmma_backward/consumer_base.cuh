// What consumers of both kinds do alike: they go through work tiles, and hand their parts of dq to
// the storers.
#pragma once

#include "src/cuda/flash_wgmma_backward/shared_storage.cuh"

namespace rapt::cuda::flash_wgmma_backward {

// `Consumer` has compute(work, loaded, dk, dv), for the loaded-th work tile with any queries, and
// store(work, dk, dv).
template <TileConfig config, class Consumer>
class ConsumerBase {
 public:
  RAPT_DEVICE ConsumerBase(const Parameters& p, SharedStorage<config>& shared, int group)
      : p_(p), shared_(shared), group_(group) {}

  RAPT_DEVICE void run() {
    using Mma = typename Consumer::Mma;
    Consumer& self = static_cast<Consumer&>(*this);
    int loaded = 0;  // work tiles with any queries
    for (int number = 0;; ++number) {
      shared_.key_ring.wait_full(number);
      const WorkTile& work = shared_.work_tiles[number % 2];
      if (uniform(work.key_tile) < 0) return;
      typename Mma::Sums dk, dv;
      clear(dk);
      clear(dv);
      if (uniform(work.walk.count) > 0) self.compute(work, loaded++, dk, dv);
      shared_.key_ring.free[0].arrive_if(Target::lane() == 0);
      self.store(work, dk, dv);
    }
  }

 protected:
  // Queries that all keys of the warp are visible to.
  struct Unmasked {
    int begin, end;
  };
  RAPT_DEVICE static bool is_unmasked(const Unmasked& unmasked, int query) {
    return query >= unmasked.begin && query + config.queries <= unmasked.end;
  }

  template <int n, class Function>
  RAPT_DEVICE static void for_each(float (&matrix)[n][4], Function function) {
    RAPT_UNROLL
    for (int j = 0; j < n; ++j) {
      RAPT_UNROLL
      for (int i = 0; i < 4; ++i) function(j, i, matrix[j][i]);
    }
  }

  // A number that is the same in all lanes, in a way that lets the compiler know.
  RAPT_DEVICE static int uniform(int number) {
    return static_cast<int>(__reduce_or_sync(Target::all_lanes, static_cast<unsigned>(number)));
  }

  RAPT_DEVICE semantics::Range queries_of_key(const WorkTile& work, Index key) const {
    if (key >= work.sequence.kv_len) return {0, 0};
    return semantics::queries_of_keys(p_.common.call.window, key, key, work.sequence.q_len,
                                      work.sequence.offset);
  }

  RAPT_DEVICE int steps_of(const WorkTile& work) const {
    return uniform(static_cast<int>(p_.common.call.heads / p_.common.call.kv_heads) *
                   work.walk.count);
  }

  // A part of dq to a storer, as it lies in registers: the warpgroup's `number`-th.
  RAPT_DEVICE void hand_over(const float (&dq)[8][4], int number) const {
    const hopper::PipelineState<config.storers> pipe(number);
    // With one buffer, the part before this one has to be out of it.
    shared_.dq_rings[group_].wait_free(config.dq_buffers == 1 ? number + 1 : number);
    float4* const to = reinterpret_cast<float4*>(
                           shared_.dq[hopper::ring_index<config.dq_buffers>(number)][group_]) +
                       Target::thread() % hopper::warpgroup_threads;
    RAPT_UNROLL
    for (int j = 0; j < 8; ++j)
      to[j * hopper::warpgroup_threads] = make_float4(dq[j][0], dq[j][1], dq[j][2], dq[j][3]);
    ptx::fence_proxy_async();
    __syncwarp();
    shared_.dq_rings[group_].full[pipe.index].arrive_if(Target::lane() == 0);
  }

  const Parameters& p_;
  SharedStorage<config>& shared_;
  const int group_;
  int step_ = 0;  // over all work tiles

 private:
  template <int n>
  RAPT_DEVICE static void clear(float (&matrix)[n][4]) {
    for_each(matrix, [](int, int, float& sum) { sum = 0; });
  }
  template <int panels, int n>
  RAPT_DEVICE static void clear(float (&matrices)[panels][n][4]) {
    RAPT_UNROLL
    for (int panel = 0; panel < panels; ++panel) clear(matrices[panel]);
  }
};

}  // namespace rapt::cuda::flash_wgmma_backward
