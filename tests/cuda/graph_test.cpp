// Plans in CUDA graphs: captured before anything ran, replayed with whatever lies in the same
// memory then.
#include <memory>
#include <numeric>
#include <set>
#include <span>

#include "tests/cuda/support.hpp"

namespace rapt::test {
namespace {

// Of every kernel's kind: many queries, one query over many keys, a handful of keys, wide heads.
// Gradients come first, so that what Hopper's kernels look for in the driver is looked for by them.
constexpr const char* problems[] = {
    "b2 h2 s130 d128 f16 dropout0.2 backward",
    "b3 h4/2 q70 kv200 d64 bf16 causal kv_lengths lse",
    "b3 h8/2 q1 kv700 d128 f16 kv_lengths page16 lse",
    "b2 h4/2 q3 kv300 d64 f32 kv_lengths page16 sinks lse",
    "b9 h4/2 q1 kv8 d128 f16 kv_lengths page4 lse",
    "b2 h2 q5 kv90 d600 f32 kv_lengths lse",
    "b4 h2 s60 d64 f32 causal varlen lse",
    "b2 h4 s130 d128 bf16 lse",
    "b3 h4/2 q70 kv200 d64 bf16 causal kv_lengths backward dlse",
    "b2 h2 s70 d64 f32 causal sinks backward:sinks",
};
// In this order the lengths of all problems grow from one to the next at some time.
constexpr std::uint64_t seeds[] = {3, 4, 5, 7};

std::int64_t keys_in_use(const verify::Data& data) {
  const Tensor lengths = data.on_host().kv_lengths;
  const std::span all(static_cast<const std::int32_t*>(lengths.data),
                      static_cast<std::size_t>(lengths.size[0]));
  return std::accumulate(all.begin(), all.end(), std::int64_t{0});
}

std::string named(const PlanOptions& options) {
  return std::string(options.kernel) + " " + options.config.to_string();
}

class CudaGraph : public OnCuda {
 protected:
  void SetUp() override {
    OnCuda::SetUp();
    if (!IsSkipped()) clock = find_backend(Backend::cuda).clock(device);
  }
  void replay() {
    clock->replay();
    find_backend(Backend::cuda).wait(device, clock->stream());
  }

  std::unique_ptr<StreamClock> clock;
};

TEST_F(CudaGraph, ReplaysEveryKernelWithGrownLengthsAndOtherInputs) {
  std::set<std::string_view> replayed;
  for (const char* text : problems) {
    const Problem problem = Problem::parse(text);
    for (const PlanOptions& options : plans_for(problem)) {
      SCOPED_TRACE(named(options) + " on " + text);
      OneKernel one(problem, device, options, seeds[0]);
      one.workspace.upload();
      clock->capture([&] { one.run(clock->stream()); });
      bool grown = false;
      std::int64_t least = 0;
      for (const std::uint64_t seed : seeds) {
        one.data.refill(seed, verify::Fill::hostile);
        one.data.upload();
        replay();
        EXPECT_EQ(one.fault(), "") << "seed " << seed;
        if (!problem.lengths) continue;
        const std::int64_t keys = keys_in_use(one.data);
        if (seed == seeds[0]) least = keys;
        grown = grown || keys > least;
      }
      EXPECT_EQ(grown, problem.lengths) << "the lengths never grew: other seeds are needed";
      replayed.insert(options.kernel);
    }
  }
  for (const KernelInfo& kernel : kernels()) {
    if (kernel.backend != Backend::cuda) continue;
    EXPECT_TRUE(replayed.contains(kernel.name)) << kernel.name << " takes none of the problems";
  }
}

TEST_F(CudaGraph, GivesTheSameBitsInAHundredReplaysAndWithoutAGraph) {
  for (const char* text : problems) {
    const Problem problem = Problem::parse(text);
    for (const PlanOptions& options : plans_for(problem)) {
      SCOPED_TRACE(named(options) + " on " + text);
      OneKernel one(problem, device, options, seeds[0]);
      one.upload();
      one.run(clock->stream());
      find_backend(Backend::cuda).wait(device, clock->stream());
      const verify::Results results = one.data.download();
      clock->capture([&] { one.run(clock->stream()); });
      int different = 0;
      for (int i = 0; i < 100; ++i) {
        one.data.upload_outputs();
        one.workspace.upload();
        replay();
        different += one.data.download() != results;
      }
      EXPECT_EQ(different, 0);
    }
  }
}

}  // namespace
}  // namespace rapt::test
