// A matrix engine does the arithmetic of flash attention for one block of query rows against one
// tile of keys: S = Q Kᵀ, P = softmax weights less what dropout drops, O = O · rescale + P V.
//
// Each engine has its own packed form of Q, K and V, in which its inner loops read memory in order
// whatever the tensors' strides, types and pages. The driver (flash_driver.cpp) knows none of them:
// it decides which rows meet which keys. engine_f32.cpp works on vectors of f32, engines_bf16.cpp
// on tiles of bf16.
#pragma once

#include "rapt/rapt.hpp"
#include "src/semantics/visibility.hpp"

namespace rapt {

// Keys and key ranges count from the start of the tile.
struct BlockTile {
  semantics::Index rows, qk_dim, v_dim, tile_keys;
  const semantics::Range* row_keys;     // (rows): what each row sees; may be empty
  const semantics::Range* group_keys;   // (row groups): what some row of a group sees
  const void *queries, *keys, *values;  // packed
  void* scratch;                        // for scores and weights
  float score_scale;                    // times a score is an exponent of 2
  // (rows): weights are 2^(exponent − reference), 2⁸ at most; their sum, and that of the rounded
  // ones where the engine rounds them; and what the tile multiplies earlier results by.
  float *reference, *row_sum, *divisor, *rescale;
  float* out;  // (rows of whole groups, v_dim of whole panels), with out_stride
  semantics::Index out_stride;
  // Turns dot products of a row with some keys into scores; null where scaling is all there is to
  // it.
  void (*score_row)(const BlockTile&, semantics::Index row, semantics::Range keys, float* dots);
  // Multiplies weights of a row and some keys by 0 where dropout drops the pair; null: none. What
  // is kept is scaled at the end.
  void (*drop_row)(const BlockTile&, semantics::Index row, semantics::Range keys, float* weights);
  const void* context;  // for both
};

struct Engine {
  semantics::Index group_rows;  // rows that one inner loop takes
  semantics::Index panel;       // keys or value dims that one inner loop takes
  bool rounds_weights;          // before they are multiplied
  semantics::Index value_step;  // keys whose values are multiplied together, by weights of 0 too

  // Bytes of packed operands and of scratch memory.
  semantics::Index (*queries_bytes)(semantics::Index rows, semantics::Index qk_dim);
  semantics::Index (*keys_bytes)(semantics::Index tile_keys, semantics::Index qk_dim);
  semantics::Index (*values_bytes)(semantics::Index tile_keys, semantics::Index v_dim);
  semantics::Index (*scratch_bytes)(semantics::Index rows, semantics::Index tile_keys);

  // `rows[i]` is where a row begins. Of a tile only `keys` are packed; the rest of their panels is
  // made zero where it matters.
  void (*pack_queries)(DType, const void* const* rows, semantics::Index count,
                       semantics::Index qk_dim, void* packed);
  void (*pack_keys)(DType, const void* const* rows, semantics::Range keys, semantics::Index qk_dim,
                    void* packed);
  void (*pack_values)(DType, const void* const* rows, semantics::Range keys,
                      semantics::Index tile_keys, semantics::Index v_dim, void* packed);

  // Around all the work of one thread on one item.
  void (*enter)();
  void (*leave)();

  void (*attend)(const BlockTile&);  // updates out, reference, row_sum and divisor

  // The same in steps, so that wide heads can be packed and multiplied a part of the dims at a
  // time: scores are set by the first part of Q and K and added to by the others; then they become
  // weights; then parts of V are multiplied into their parts of out, which the first tile sets and
  // the others add to. Null: attend() is all there is.
  void (*set_scores)(const BlockTile&);
  void (*add_scores)(const BlockTile&);
  void (*weigh)(const BlockTile&);
  void (*set_out)(const BlockTile&);
  void (*add_out)(const BlockTile&);
};

const Engine& f32_engine();
// Null: this build or processor has none; the device says who may use them.
const Engine* amx_engine();   // on AMX
const Engine* bf16_engine();  // on AVX-512's dot products of bf16

}  // namespace rapt
