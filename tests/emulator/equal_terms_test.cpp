// Dot products of equal terms, whose roundings all go the same way: what kernels make of them may
// not grow with the head dim.
#include <cmath>

#include "src/core/text.hpp"
#include "tests/conformance/plans.hpp"
#include "tests/unit/support.hpp"

namespace rapt::test {
namespace {

// The score's error in units of f32's roundoff, since lse is the score and a logarithm.
double worst_error(const Example& example, const Device& device, const PlanOptions& options) {
  double worst = 0;
  for (const float q : {1.0f, 1.1f, 1.3f, 1.7f, 1.9f}) {
    const float k = 60 * 0.83f / std::sqrt(float(example.problem.qk_dim));
    const Arguments& a = example.arguments;
    for_each_position(a.q.size, [&](const Shape& at) { set(a.q, at, q); });
    for_each_position(a.k.size, [&](const Shape& at) { set(a.k, at, k); });
    fill(a.lse, std::vector<float>(example.lse().size(), std::nanf("")));
    const Plan plan(example.problem, device, options);
    const Buffer workspace(device, plan.workspace_bytes());
    plan.run(a, {.workspace = workspace.bytes()});
    const double score =
        double(q) * double(k) * double(example.problem.qk_dim) * double(example.problem.scale);
    const double expected = score + std::log(double(example.problem.kv_len));
    for (const float lse : example.lse()) {
      EXPECT_TRUE(std::isfinite(lse));
      worst = std::max(worst, std::abs(lse - expected) / (score * 0x1p-24));
    }
  }
  return worst;
}

TEST(EqualTerms, OfADotProductAreSummedToAFewRoundings) {
  const Device device = Device::parse("emu:0");
  for (const char* size : {"q1 kv5", "q20 kv40"}) {
    for (const int dim : {32, 64, 128, 256, 512, 2048, 8192}) {
      const Example example(text("h1 ", size, " lse f32 d", dim));
      for (const PlanOptions& options : plans_for(example.problem, device)) {
        if (options.kernel == "emu.gemm") continue;  // how a library sums is its own business
        // Three products of TF32 leave out 2⁻²⁰ of one of f32.
        const double allowed = options.kernel == "emu.flash_mma" ? 16 : 10;
        EXPECT_LE(worst_error(example, device, options), allowed)
            << options.kernel << " " << options.config.to_string() << " on "
            << example.problem.to_string();
      }
    }
  }
}

}  // namespace
}  // namespace rapt::test
