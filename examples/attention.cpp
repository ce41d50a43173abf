// The smallest program: causal attention over 4 tokens with 2 heads of dim 8.
#include <cstdio>
#include <rapt/rapt.hpp>
#include <vector>

int main() {
  std::vector<float> q(4 * 2 * 8, 0.5f), k = q, v(q.size()), out(q.size());
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i / 16);  // the token
  const auto tensor = [](std::vector<float>& data) {
    return rapt::Tensor::dense(data.data(), rapt::DType::f32, {1, 4, 2, 8});
  };
  rapt::attention({.q = tensor(q), .k = tensor(k), .v = tensor(v), .out = tensor(out)},
                  {.causal = true});
  for (std::size_t token = 0; token < 4; ++token) std::printf("%g ", double(out[token * 16]));
  std::printf("(expected: 0 0.5 1 1.5)\n");
}
