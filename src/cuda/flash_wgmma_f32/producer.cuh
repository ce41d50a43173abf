// The producer: a warpgroup that loads tiles of keys and values and prepares them for the tensor
// cores. It makes low parts, once for all warps of the block, and transposes values.
#pragma once

#include "src/cuda/flash_wgmma_f32/storage.cuh"

namespace rapt::cuda::flash_wgmma_f32 {

template <TileConfig config>
class Producer {
  using Rows = flash_wgmma_f32::Rows<config>;
  using Storage = flash_wgmma_f32::Storage<config>;

 public:
  RAPT_DEVICE static void run(const Parameters& p) {
    const semantics::Call& call = p.call;
    const typename Rows::Block block = Rows::block_at(p, Target::block_x());
    if (block.tile.rows <= 0) return;  // there is one chunk, if any
    const typename Rows::WarpTile warp_tile = Rows::warp_tile_of(p, block);
    const uint32_t memory = ptx::shared_address(block_memory);
    const KeyRows keys(call, p.page, block.tile.sequence, call.k, call.k_stride, warp_tile.kv_head);
    const KeyRows values(call, p.page, block.tile.sequence, call.v, call.v_stride,
                         warp_tile.kv_head);
    const bool whole_qk = gpu::whole_accesses<float>(p.aligned, call.qk_dim);
    const bool whole_v = gpu::whole_accesses<float>(p.aligned, call.v_dim);
    const auto load_keys = [&](int first) {
      flash_wgmma_f32::load_keys<Rows, KeyPieces, config.keys>(
          memory + Storage::keys_at, keys, call.qk_dim, whole_qk, warp_tile, first, call.q);
    };
    const auto load_values = [&](int first) {
      flash_wgmma_f32::load_keys<Rows, ValuePieces, config.keys>(memory + Storage::loaded_values_at,
                                                                 values, call.v_dim, whole_v,
                                                                 warp_tile, first, call.q);
    };

    Rings& rings = Storage::rings();
    int first = warp_tile.keys.begin;
    if (first < warp_tile.keys.end) {
      load_keys(first);
      load_values(first);
    }
    hopper::PipelineState<1> pipe(0);
    RAPT_NO_UNROLL
    for (; first < warp_tile.keys.end; first += config.keys) {
      const int next = first + config.keys;
      ptx::cp_async_wait_all();
      split_keys(memory);
      ptx::fence_proxy_async();
      arrive(rings.keys.full[0]);
      rings.values.wait_free(pipe);  // of the tile before
      transpose_values(memory);
      ptx::fence_proxy_async();
      arrive(rings.values.full[0]);
      if (next < warp_tile.keys.end) load_values(next);
      pipe.advance();
      rings.keys.wait_free(pipe);
      if (next < warp_tile.keys.end) load_keys(next);
    }
  }

 private:
  using KeyRows = flash_mma::KeyRows<float>;
  using KeyPieces = Storage::KeyPieces;
  using ValuePieces = Storage::ValuePieces;
  using Values = Storage::Values;

  // The thread makes the low parts of the keys that it has loaded.
  RAPT_DEVICE static void split_keys(uint32_t memory) {
    constexpr int at_once = 4;
    static_assert(KeyPieces::count % at_once == 0);
    RAPT_UNROLL
    for (int first = 0; first < KeyPieces::count; first += at_once) {
      uint32_t some[at_once][4], low_parts[4];
      RAPT_UNROLL
      for (int i = 0; i < at_once; ++i)
        ptx::load_shared(memory + Storage::keys_at + KeyPieces::place(first + i), some[i]);
      RAPT_UNROLL
      for (int i = 0; i < at_once; ++i) {
        split(some[i], low_parts);
        ptx::store_shared(memory + Storage::key_low_parts_at + KeyPieces::place(first + i),
                          low_parts);
      }
    }
  }
  // And transposes its values, with their low parts.
  RAPT_DEVICE static void transpose_values(uint32_t memory) {
    RAPT_UNROLL
    for (int first = 0; first < ValuePieces::count; first += 4) transpose_values(memory, first);
  }

  // Four by four, from the thread's piece `first` on.
  RAPT_DEVICE static void transpose_values(uint32_t memory, int first) {
    uint32_t keys[4][4];
    RAPT_UNROLL
    for (int i = 0; i < 4; ++i)
      ptx::load_shared(memory + Storage::loaded_values_at + ValuePieces::place(first + i), keys[i]);
    const uint32_t to = Values::at(ValuePieces::column(),
                                   ValuePieces::panel() * panel_columns + ValuePieces::four() * 4);
    RAPT_UNROLL
    for (int j = 0; j < 4; ++j) {
      const uint32_t at = Values::below(to, ValuePieces::column_step(first) + j);
      const uint32_t some[4] = {keys[0][j], keys[1][j], keys[2][j], keys[3][j]};
      uint32_t low_parts[4];
      split(some, low_parts);
      ptx::store_shared(memory + Storage::values_at + at, some);
      ptx::store_shared(memory + Storage::value_low_parts_at + at, low_parts);
    }
  }
};

}  // namespace rapt::cuda::flash_wgmma_f32
