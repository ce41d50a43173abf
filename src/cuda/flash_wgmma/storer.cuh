// The storer: one thread that sends output that warpgroups have staged to where it belongs, by TMA.
// Then its room is free again.
#pragma once

#include "src/cuda/flash_wgmma/shared_storage.cuh"
#include "src/cuda/hopper/tma_tile.cuh"

namespace rapt::cuda::flash_wgmma {

template <TileConfig config>
class OutputStorer {
 public:
  RAPT_DEVICE OutputStorer(const Parameters& p, SharedStorage<config>& shared)
      : p_(p), shared_(shared) {}

  RAPT_DEVICE void run() {
    for (int work_tile = 0;; ++work_tile) {
      const bool more = wait_for_tile_info(shared_, work_tile).left > 0;
      if (work_tile == 0 && !more) return;
      RAPT_NO_UNROLL
      for (int group = 0; group < config.warpgroups; ++group) {
        shared_.output_buffers.wait_full(
            hopper::PipelineState<config.warpgroups>::of_buffer(group, work_tile));
        if (work_tile > 0)
          store(shared_.tile_infos[hopper::ring_index<tile_info_stages>(work_tile - 1)], group,
                staging(shared_, group, work_tile));
        shared_.output_buffers.free[group].arrive();
        if (staged_in_queries<config> && (config.q_in_registers || work_tile > 0))
          shared_.query_ring.free[staging_buffer<config>(work_tile)].arrive();
      }
      if (!more) return;
    }
  }

 private:
  using Output = Tiles<config>::Output;

  RAPT_DEVICE void store(const WorkTileInfo& from, int group, const unsigned char* tile) const {
    if (!stores_by_tma(p_, from, group)) return;
    RAPT_UNROLL
    for (int panel = 0; panel < Output::panels; ++panel)
      hopper::store_panel<Output>(p_.output, tile, panel, 0, 0,
                                  from.row + group * p_.schedule.queries, from.head, from.outer);
    ptx::tma_store_wait();
  }

  const Parameters& p_;
  SharedStorage<config>& shared_;
};

}  // namespace rapt::cuda::flash_wgmma
