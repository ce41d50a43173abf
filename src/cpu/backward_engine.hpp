// The arithmetic of flash backward for one tile of queries and one of keys:
//
//   S = Q Kᵀ,  P = e^(score − lse),  dP = dO Vᵀ,  dS = P ∘ (Z ∘ dP − D),  dX = dS through the cap
//   dV += (Z ∘ P)ᵀ dO,  dK += dXᵀ Q,  dQ += dX K
//
// Operands are packed as an engine of forward packs them (engine.hpp). Each engine has its own form
// of what sums over queries are made of, and of those sums; the driver (backward_driver.cpp) knows
// none of them: it decides which queries meet which keys. backward_engine_f32.cpp works on vectors
// of f32, backward_engine_bf16-inl.hpp on tiles of bf16.
#pragma once

#include "src/cpu/engine.hpp"

namespace rapt {

inline constexpr semantics::Index most_backward_queries = 256, most_backward_keys = 128;

// Keys count from the start of the tile.
struct GradientTile {
  semantics::Index rows, qk_dim, v_dim;
  semantics::Range keys;             // of the tile, that are looked at: some row sees each of them
  const semantics::Range* row_keys;  // (rows): what each row sees of them; may be empty
  const void *q_rows, *dout_rows;    // as queries
  const void *q_factors, *dout_factors;  // as pack_factors() makes them
  const void *k_columns, *v_columns;     // as keys
  const void* k_values;                  // as values
  const float *lse, *deltas;             // (rows)
  float scale, softcap;                  // softcap 0: none
  void* scratch;
  float* dq;       // (rows, qk_stride), whole panels; null: no sums at all
  float *dk, *dv;  // of the tile's keys, as the engine keeps them
  semantics::Index qk_stride, v_stride;

  // Turns dot products of a row with some keys into scores; null where scaling is all there is to
  // it.
  void (*score_row)(const GradientTile&, semantics::Index row, semantics::Range keys, float* dots);
  // Multiplies numbers of a row and some keys by Z, 0 where dropout drops the pair; null: Z is 1.
  void (*drop_row)(const GradientTile&, semantics::Index row, semantics::Range keys,
                   float* numbers);
  // Sees dS of a row's keys; null: nobody asks.
  void (*see_row)(const GradientTile&, semantics::Index row, semantics::Range keys,
                  const float* gradients);
  void* context;  // for all of them
};

struct BackwardEngine {
  const Engine* operands;  // packs them
  semantics::Index tile_queries, tile_keys;
  semantics::Index chunk_tiles;  // tiles of keys whose operands and sums stay in the cache together
  semantics::Index scratch_bytes;

  // Queries as what sums over them are made of.
  semantics::Index (*factors_bytes)(semantics::Index dims);
  void (*pack_factors)(DType, const void* const* rows, semantics::Index count,
                       semantics::Index dims, void* packed);

  void (*add_tile)(const GradientTile&);

  // A tile's dk or dv, (tile_keys, stride) floats in the engine's form, as rows of keys: where they
  // are, or in `rows`.
  const float* (*key_rows)(const float* sums, semantics::Index stride, float* rows);
};

const BackwardEngine& f32_backward_engine();
// Null: as engines of forward.
const BackwardEngine* amx_backward_engine();
const BackwardEngine* bf16_backward_engine();

}  // namespace rapt
