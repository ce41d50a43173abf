// Gradients: every backward kernel on random problems, and the oracle itself against differences of
// forward's.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "src/core/call.hpp"
#include "src/oracle/pair_gradients.hpp"
#include "src/verify/data.hpp"
#include "src/verify/generator.hpp"
#include "tests/conformance/plans.hpp"
#include "tests/conformance/support.hpp"
#include "tests/unit/support.hpp"

namespace rapt::test {
namespace {

// A fifth of forward's.
std::uint64_t cases() { return std::max<std::uint64_t>(1, cases_to_run(300) / 5); }

Problem random_backward(std::uint64_t seed) {
  return verify::random_problem(seed, Backend::cpu, Operation::backward);
}

TEST(Backward, EveryKernelIsRightWhereItSaysYes) {
  for (std::uint64_t seed = 1; seed <= cases(); ++seed)
    expect_every_kernel_keeps_its_promise(random_backward(seed), Device::cpu(2), seed);
}

TEST(Backward, TheOracleAsAKernelWritesWhatItShouldAndNothingElse) {
  for (std::uint64_t seed = 1; seed <= std::min<std::uint64_t>(cases(), 20); ++seed) {
    verify::Case one(random_backward(seed), Device::cpu(2), seed);
    expect_kernel_keeps_its_promise(one, "cpu.oracle_backward");
  }
}

TEST(Backward, RandomProblemsShowEveryFeature) {
  std::set<std::string> drawn;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    for (const std::string& feature : verify::features_of(random_backward(seed)))
      drawn.insert(feature);
  }
  for (const std::string& feature : verify::all_features(Operation::backward))
    EXPECT_TRUE(drawn.contains(feature)) << feature << " was never drawn";
}

TEST(Backward, EveryKernelIsRightAcrossItsBlocksAndTiles) {
  for (const char* text : {"b1 h2 s300 d40 f32 causal backward",
                           "b1 h6/2 s270 d64 bf16 causal window100 backward dlse",
                           "b1 h1 q97 kv513 d300/350 f32 causal backward",
                           "b2 h4/2 q150 kv200 d64 f16 softcap20 bias:hqk backward:bias",
                           "b3 h8/2 q60 kv130 d32 bf16 varlen alibi sinks backward:sinks,alibi",
                           "b1 h2/1 q300 kv290 d80/40 bf16 window60+5 backward dv:f32",
                           "b2 h1 q290 kv200 d32 bf16 causal softcap9 kv_lengths backward",
                           "b1 h4/2 q150 kv300 d64 bf16 causal dropout0.3 backward",
                           "b2 h2/1 q130 kv300 d64 f32 window64+4 kv_lengths backward dq:f32"}) {
    expect_every_kernel_keeps_its_promise(Problem::parse(text), Device::cpu(2), 1);
  }
}

TEST(Backward, BitsAreTheSameInEveryRunWhateverTheNumberOfThreads) {
  constexpr int runs = 2;  // with each number of threads
  std::vector<Problem> problems = {
      // a long head, cut for many threads; a group's heads; sums
      Problem::parse("b1 h1 q100 kv2100 d64 f32 causal backward"),
      Problem::parse("b2 h4/2 s600 d32 bf16 causal backward dlse"),
      Problem::parse("b2 h2 q70 kv1200 d16 f32 bias:k alibi sinks backward:bias,sinks,alibi")};
  for (std::uint64_t seed = 501; seed <= 500 + std::max<std::uint64_t>(1, cases() / 6); ++seed)
    problems.push_back(random_backward(seed));
  for (const Problem& problem : problems) {
    verify::Data data(problem, Device::cpu(1), 7, verify::Fill::typical);
    for (const PlanOptions& options : plans_for(problem, Device::cpu(1))) {
      if (options.kernel.starts_with("cpu.oracle")) continue;
      verify::Results first;
      for (const int threads : {1, 2, 7}) {
        const Plan plan(problem, Device::cpu(threads), options);
        const Buffer workspace(Device::cpu(threads), plan.workspace_bytes());
        for (int run = 0; run < runs; ++run) {
          data.upload();
          plan.run(data.on_device(), {.workspace = workspace.bytes()});
          if (first.empty()) first = data.download();
          EXPECT_TRUE(data.download() == first)
              << options.kernel << " on " << threads << " threads, run " << run
              << ", gives other bits: " << problem.to_string();
        }
      }
    }
  }
}

// Σ dout · out + Σ dlse · lse, in fp64.
double loss(const Arguments& arguments, const Problem& problem) {
  const BackwardCall backward = {problem, make_call(problem, arguments),
                                 make_gradients(problem, arguments)};
  const semantics::Call& call = backward.call;
  std::vector<double> out(static_cast<std::size_t>(call.v_dim));
  std::vector<double> scores(static_cast<std::size_t>(call.kv_len));
  double sum = 0;
  for (semantics::Index b = 0; b < call.batch; ++b) {
    const semantics::Sequence sequence = semantics::sequence(call, b);
    for (semantics::Index head = 0; head < call.heads; ++head) {
      for (semantics::Index query = 0; query < sequence.q_len; ++query) {
        const GradientRow row = gradient_row(backward, {sequence, head, query});
        const double lse = oracle_row(call, problem.dtype, row.row, out, scores);
        for (std::size_t d = 0; d < out.size(); ++d) sum += row.dout[d] * out[d];
        const semantics::Place place = semantics::query_place(call, sequence, query);
        const float dlse =
            backward.gradients
                .dlse[semantics::lse_offset(backward.gradients.dlse_stride, place, head)];
        if (std::isfinite(lse)) sum += double(dlse) * lse;
      }
    }
  }
  return sum;
}

TEST(Backward, TheOraclesGradientsAreDifferencesOfForward) {
  for (const char* text :
       {"b2 h4/2 q5 kv7 d6/5 f32 causal bias:hqk softcap3 sinks alibi backward:bias,sinks,alibi "
        "dlse",
        "b3 h2 q4 kv6 d3 f32 window2+1 offset1 bias:bk alibi:b scale0.7 backward:bias,alibi dlse",
        "b2 h4/2 q5 kv9 d6/5 f32 causal bias:hqk softcap3 sinks alibi dropout0.4 "
        "backward:bias,sinks,alibi dlse",
        "b2 h2/1 q3 kv5 d4/2 f32 varlen5/8 kv_lengths mask:hqk bias:1 sinks backward:bias,sinks "
        "dlse"}) {
    Example example(text);
    const Arguments& a = example.arguments;
    Arguments forward = a;
    for (const TensorRule& rule : tensor_rules()) {
      if (rule.part(Operation::forward).use == Use::none) forward.*rule.member = {};
    }
    Options options = verify::options_of(example.problem);
    const Plan plan(Problem::of(forward, options), Device::cpu(1), {.kernel = "cpu.oracle"});
    const Buffer workspace(Device::cpu(1), plan.workspace_bytes());
    plan.run(forward, {.workspace = workspace.bytes()});
    example.run("cpu.oracle_backward");
    for (const auto& [input, gradient] :
         {std::pair{&Arguments::q, &Arguments::dq}, std::pair{&Arguments::k, &Arguments::dk},
          std::pair{&Arguments::v, &Arguments::dv}, std::pair{&Arguments::bias, &Arguments::dbias},
          std::pair{&Arguments::sinks, &Arguments::dsinks},
          std::pair{&Arguments::alibi, &Arguments::dalibi}}) {
      const Tensor &x = a.*input, &dx = a.*gradient;
      if (!dx.present()) continue;
      ASSERT_EQ(x.stride, dx.stride) << text;
      auto* numbers = static_cast<float*>(x.data);
      const std::vector<float> gradients = values(dx);
      for (std::size_t i = 0; i < gradients.size(); ++i) {
        const float kept = numbers[i], step = 0x1p-9f;
        numbers[i] = kept + step;
        const double above = loss(a, example.problem), up = double(numbers[i]);
        numbers[i] = kept - step;
        const double below = loss(a, example.problem), down = double(numbers[i]);
        numbers[i] = kept;
        const double difference = (above - below) / (up - down);
        EXPECT_NEAR(double(gradients[i]), difference, 2e-4 * (1 + std::abs(difference)))
            << text << ", element " << i;
      }
    }
  }
}

TEST(Backward, ARowThatSeesNothingHasNoPartAndItsDlseReachesTheSink) {
  Example example("b1 h1 q1 kv2 d2 f32 mask:1 sinks backward:sinks dlse");
  const Arguments& a = example.arguments;
  fill(a.lse, {0.25f});
  fill(a.sinks, {0.25f});
  fill(a.out, {0, 0});
  fill(a.dlse, {3});
  *static_cast<std::uint8_t*>(a.mask.data) = 0;
  for (const char* kernel : {"cpu.oracle_backward", "cpu.naive_backward"}) {
    for (const Tensor& gradient : {a.dq, a.dk, a.dv, a.dsinks})
      fill(gradient, std::vector<float>(values(gradient).size(), 99));
    example.run(kernel);
    EXPECT_EQ(values(a.dq), (std::vector<float>{0, 0})) << kernel;
    EXPECT_EQ(values(a.dk), (std::vector<float>(4, 0))) << kernel;
    EXPECT_EQ(values(a.dv), (std::vector<float>(4, 0))) << kernel;
    EXPECT_EQ(values(a.dsinks), (std::vector<float>{3})) << kernel;
  }
}

}  // namespace
}  // namespace rapt::test
