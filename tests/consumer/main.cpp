// One query that sees two equal keys: the result is the mean of their values.
#include <array>
#include <cmath>
#include <cstdio>
#include <string_view>

#include "rapt/rapt.hpp"

namespace {

// What rapt's own tests have and an installed library has not.
bool has_emulator() {
  try {
    rapt::Device::parse("emu:0");
    return true;
  } catch (const rapt::Error& error) {
    return std::string_view(error.what()).find("has no emu backend") == std::string_view::npos;
  }
}

}  // namespace

int main() {
  const std::array<float, 2> q = {1, 0};
  const std::array<float, 4> k = {1, 0, 1, 0};
  const std::array<float, 4> v = {1, 2, 3, 4};
  std::array<float, 2> out = {};
  if (has_emulator()) return 1;

  rapt::Arguments arguments;
  arguments.q = rapt::Tensor::dense(q.data(), rapt::DType::f32, {1, 1, 1, 2});
  arguments.k = rapt::Tensor::dense(k.data(), rapt::DType::f32, {1, 2, 1, 2});
  arguments.v = rapt::Tensor::dense(v.data(), rapt::DType::f32, {1, 2, 1, 2});
  arguments.out = rapt::Tensor::dense(out.data(), rapt::DType::f32, {1, 1, 1, 2});
  try {
    rapt::attention(arguments);
    rapt::Problem::parse("not a problem");
  } catch (const rapt::Error& error) {
    const bool right = std::abs(out[0] - 2) < 1e-5F && std::abs(out[1] - 3) < 1e-5F;
    std::printf("%g %g\n", out[0], out[1]);
    return right && error.code() == rapt::ErrorCode::invalid_argument ? 0 : 1;
  }
  return 1;
}
