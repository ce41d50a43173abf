#include "src/cpu/dropout.hpp"

#include <algorithm>
#include <cstdint>

#include "src/cpu/vector_clones.hpp"

namespace rapt {

using semantics::Index;

namespace {

constexpr int columns = 8;            // of keys that one row's draws differ in
constexpr Index keys_of_a_draw = 32;  // neighbouring keys that `columns` draws serve

}  // namespace

RAPT_VECTOR_CLONES void apply_dropout(const semantics::DropoutStream& dropout, Index query,
                                      semantics::Range keys, float kept, float* numbers) {
  const int m = semantics::place_in_draw(query);
  for (Index first = keys.begin / keys_of_a_draw * keys_of_a_draw; first < keys.end;
       first += keys_of_a_draw) {
    std::uint32_t words[columns];
    for (int b = 0; b < columns; ++b)
      words[b] = semantics::draw_dropout(dropout, query, first + b).word[m];
    float factors[keys_of_a_draw];
    for (int n = 0; n < 4; ++n) {
      for (int b = 0; b < columns; ++b)
        factors[columns * n + b] = (words[b] >> (8 * n) & 0xff) >= dropout.dropped ? kept : 0.0f;
    }
    const Index begin = std::max(first, keys.begin),
                end = std::min(first + keys_of_a_draw, keys.end);
    for (Index key = begin; key < end; ++key) numbers[key - keys.begin] *= factors[key - first];
  }
}

}  // namespace rapt
