// The arithmetic of flash backward for one tile of queries and one of keys, on vectors of f32:
//
//   S = Q Kᵀ,  P = e^(score − lse),  dP = dO Vᵀ,  dS = P ∘ (dP − D),  dX = dS through the cap
//   dV += Pᵀ dO,  dK += dXᵀ Q,  dQ += dX K
//
// Operands are packed as the engine of forward packs them (engine.hpp): rows that are read element
// by element as its queries, the other factor of a product as its keys (columns) or its values
// (rows). The driver (flash_backward.cpp) decides which queries meet which keys.
#pragma once

#include "src/semantics/visibility.hpp"

namespace rapt {

inline constexpr semantics::Index backward_tile_queries = 96, backward_tile_keys = 128;

// Keys count from the start of the tile.
struct GradientTile {
  semantics::Index rows, qk_dim, v_dim;
  semantics::Range keys;             // of the tile, that are looked at: some row sees each of them
  const semantics::Range* row_keys;  // (rows): what each row sees of them; may be empty
  const float *q_rows, *dout_rows;   // as queries
  const float *k_columns, *v_columns;              // as keys
  const float *q_values, *dout_values, *k_values;  // as values
  const float *lse, *deltas;                       // (rows)
  float scale, softcap;                            // softcap 0: none
  float *weights, *gradients, *slopes;   // (rows, score stride) of P and dX; one row for the cap
  float *dq, *dk, *dv;                   // sums of the tile's rows and keys; null: no products
  semantics::Index qk_stride, v_stride;  // of rows of dq and dk; of dv

  // Turns dot products of a row with some keys into scores; null where scaling is all there is to
  // it.
  void (*score_row)(const GradientTile&, semantics::Index row, semantics::Range keys, float* dots);
  // Sees dS of a row's keys; null: nobody asks.
  void (*see_row)(const GradientTile&, semantics::Index row, semantics::Range keys,
                  const float* gradients);
  void* context;  // for both
};

struct BackwardEngine {
  void (*add_tile)(const GradientTile&);
  semantics::Index matrix_floats;  // of weights, of gradients
};
const BackwardEngine& backward_engine();

}  // namespace rapt
