// Launches `shared` (one chunk of all keys) and `flash_wide` (chunks of the keys, slices of the
// head dim): three kernels for each chunk, or two where the keys are few.
#pragma once

#include "src/gpu/few_keys.hpp"

namespace rapt::gpu {

struct TiledTiles {
  Index rows;     // as in a TiledConfig
  bool few_keys;  // softmax is part of the last kernel: small tiles, one chunk of few_keys
};

// All chunks, one after another.
template <class Launcher>
void launch_tiled(const ScoreMatrix& first, TiledTiles tiles, Where where) {
  const semantics::Call& call = first.call;
  with_element(first.dtype, [&]<class Element>() {
    const auto pass = [&]<TiledConfig config>(const ScoreMatrix& matrix) {
      using Scores = TiledScores<typename Launcher::Target, config, Element>;
      using Out = TiledOut<typename Launcher::Target, config, Element>;
      const Index query_tiles = semantics::divided_up(call.q_len, config.rows);
      const Index all = query_tiles * call.heads * call.batch;
      if (all == 0) return;
      const auto launch = [&]<class Kernel>(Index tiles_across, Index slices) {
        if (tiles_across == 0) return;
        Launcher::template launch<Kernel>(
            {all * tiles_across * slices},
            {matrix, divisor(tiles_across), divisor(slices), divisor(query_tiles)}, where);
      };
      const Index dim_tiles = semantics::divided_up(call.v_dim, out_tile_dims);
      launch.template operator()<Scores>(semantics::divided_up(matrix.chunk, config.rows),
                                         matrix.slices);
      if constexpr (config.rows == small_tiles.rows) {
        if (tiles.few_keys) {
          using FewOut = FewKeysOut<typename Launcher::Target, config.plain, Element>;
          return launch.template operator()<FewOut>(dim_tiles, 1);
        }
      }
      launch_matrix_softmax<Launcher, config.plain, Element>(matrix, where);
      launch.template operator()<Out>(dim_tiles, 1);
    };
    const auto variant = [&]<TiledConfig config>(const ScoreMatrix& matrix) {
      if (matrix.plain)
        pass.template operator()<with_plain(config, true)>(matrix);
      else
        pass.template operator()<config>(matrix);
    };
    ScoreMatrix matrix = first;
    for (Index key = 0; key == 0 || key < call.kv_len; key += first.chunk) {
      matrix.first_key = key;
      matrix.last = key + first.chunk >= call.kv_len;
      if (tiles.rows == small_tiles.rows)
        variant.template operator()<small_tiles>(matrix);
      else
        variant.template operator()<large_tiles>(matrix);
    }
  });
}

}  // namespace rapt::gpu
