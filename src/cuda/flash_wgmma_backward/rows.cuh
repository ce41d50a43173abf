// What comes before and after the work on tiles: numbers of every row, and dq from sums in f32.
#pragma once

#include "src/cuda/flash_wgmma_backward/parameters.hpp"
#include "src/gpu/backward.hpp"

namespace rapt::cuda::flash_wgmma_backward {

using gpu::Index;

// Of every row of every tile: D, and lse as an exponent; and nobody has added to a tile of dq yet.
template <class Target, TileConfig config, class Element>
struct PrepareRows {
  using Parameters = flash_wgmma_backward::Parameters;
  static constexpr int threads = 256, blocks = 6, shared_bytes = 0;
  static constexpr int lanes = 8, rows = threads / lanes;  // lanes of a row
  static constexpr int tile_queries = config.queries;

  RAPT_DEVICE static void run(const Parameters& p) {
    const semantics::Call& call = p.common.call;
    const semantics::Gradients& g = p.common.gradients;
    const Index number = Index{Target::block_x()} * rows + Target::thread() / lanes;
    const Index rows_of_sequence = Index{p.schedule.query_tiles} * tile_queries;
    const Index head = number % call.heads, query = number / call.heads % rows_of_sequence;
    const Index batch = number / call.heads / rows_of_sequence;
    const semantics::Sequence sequence = semantics::sequence(call, batch < call.batch ? batch : 0);
    const bool exists = batch < call.batch && query < sequence.q_len;
    const semantics::Place place = semantics::query_place(call, sequence, exists ? query : 0);
    const auto* dout =
        static_cast<const Element*>(g.dout) + semantics::row_offset(g.dout_stride, place, head);
    const auto* out =
        static_cast<const Element*>(call.out) + semantics::row_offset(call.out_stride, place, head);
    const Index dim = exists ? call.v_dim : 0;  // all lanes take part in the sum
    const float sum = gpu::dot_over_lanes<Target, lanes>(dout, out, dim, p.common.aligned);
    if (batch >= call.batch || Target::thread() % lanes > 0) return;
    const Index tile = query / tile_queries;
    if (const Index part = query % tile_queries; part < config.parts_of_warpgroup())
      counters_of<config>(p, batch, head, tile)[part] = 0;
    if (tile * tile_queries >= sequence.q_len) return;
    const Index at =
        (head * p.rows.tiles + first_tile(call, sequence, tile_queries)) * tile_queries + query;
    float exponent = INFINITY, delta = 0;
    if (exists) {
      const float lse = call.lse[semantics::lse_offset(call, place, head)];
      if (lse != gpu::minus_infinity) exponent = Target::product(lse, gpu::log2_e);
      const float dlse = g.dlse ? g.dlse[semantics::lse_offset(g.dlse_stride, place, head)] : 0.0f;
      delta = sum - dlse;
      if (g.dsinks) p.common.deltas[gpu::matrix_row(call, sequence, query, head)] = delta;
    }
    p.rows.exponents[at] = exponent;
    p.rows.deltas[at] = delta;
  }
};

// dq's rows from their tiles. A thread takes 8 dims of two rows, 8 apart, that lie side by side
// there.
template <class Target, TileConfig config, class Element>
struct FinishQueryGradients {
  using Parameters = flash_wgmma_backward::Parameters;
  static constexpr int threads = 256, blocks = 4, shared_bytes = 0;
  static constexpr int eights = config.dim / 8;         // of dims
  static constexpr int row_pairs = config.queries / 2;  // of a tile
  static constexpr int threads_of_tile = row_pairs * eights;

  RAPT_DEVICE static void run(const Parameters& p) {
    const semantics::Call& call = p.common.call;
    const semantics::Gradients& g = p.common.gradients;
    const Index number = Index{Target::block_x()} * threads + Target::thread();
    const int within = static_cast<int>(number % threads_of_tile);
    const Index tile_number = number / threads_of_tile;
    const Index tile = tile_number % p.schedule.query_tiles;
    const Index head = tile_number / p.schedule.query_tiles % call.heads;
    const Index batch = tile_number / p.schedule.query_tiles / call.heads;
    if (batch >= call.batch) return;
    const semantics::Sequence sequence = semantics::sequence(call, batch);
    if (tile * config.queries >= sequence.q_len) return;
    const int eight = within % eights, pair = within / eights;
    const int row = pair / 8 * 16 + pair % 8;  // and the one 8 further down
    const Index own_tile = head * p.rows.tiles + first_tile(call, sequence, config.queries) + tile;
    // (part, eight of 64 dims, thread of the warpgroup, 4): see storer.cuh.
    const int part = config.queries > 64 ? row / 64 : eight / 8;
    const int thread = row % 64 / 16 * 32 + row % 8 * 4;
    const float* from = p.rows.dq + own_tile * config.queries * config.dim + part * 4096 +
                        (eight % 8 * 128 + thread) * 4;
    const bool any = *counters_of<config>(p, batch, head, tile) > 0;
    float results[2][8] = {};
    if (any) {
      RAPT_UNROLL
      for (int i = 0; i < 4; ++i) {
        const gpu::Vector<float, 4> four =
            Target::load_once(reinterpret_cast<const gpu::Vector<float, 4>*>(from) + i);
        RAPT_UNROLL
        for (int k = 0; k < 4; ++k) results[k / 2][2 * i + k % 2] = four.at[k] * call.scale;
      }
    }
    RAPT_UNROLL
    for (int half = 0; half < 2; ++half) {
      const Index query = tile * config.queries + row + 8 * half;
      if (query >= sequence.q_len || 8 * eight >= call.qk_dim) continue;
      const semantics::Place place = semantics::query_place(call, sequence, query);
      gpu::store_gradient<Target, Element>(g.dq, g.dq_is_f32,
                                           semantics::row_offset(g.dq_stride, place, head),
                                           8 * eight, call.qk_dim, p.common.aligned, results[half]);
    }
  }
};

}  // namespace rapt::cuda::flash_wgmma_backward
