// merge() on a GPU: random cases, streams and graphs, and tensors in the wrong memory.
#include <memory>

#include "tests/conformance/random_merge.hpp"
#include "tests/cuda/support.hpp"

namespace rapt::test {
namespace {

class CudaMerge : public OnCuda {};

TEST_F(CudaMerge, IsRightWhateverTheSizesTypesStridesAndPlaceOfTheResult) {
  for (std::uint64_t seed = 0; seed < 1000; ++seed)
    EXPECT_EQ(merge_fault(device, seed), "") << "seed " << seed;
}

TEST_F(CudaMerge, ReplaysFromAGraphWithOtherValues) {
  const BackendOperations& backend = find_backend(Backend::cuda);
  const std::unique_ptr<StreamClock> clock = backend.clock(device);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    RandomMerge one(device, seed);
    clock->capture([&] { one.run({.stream = clock->stream()}); });
    for (int replay = 0; replay < 3; ++replay) {
      one.fill();
      clock->replay();
      backend.wait(device, clock->stream());
      EXPECT_EQ(one.fault(), "") << "seed " << seed << ", replay " << replay;
    }
  }
}

TEST_F(CudaMerge, RefusesATensorThatTheDeviceDoesNotReach) {
  const Buffer memory(device, 64);
  float on_host = 0;
  const auto at = [&](int element) {
    return Tensor::dense(static_cast<float*>(memory.data()) + element, DType::f32, {1, 1, 1, 1});
  };
  const Partial there = {at(0), at(1)};
  const Partial here = {at(2), Tensor::dense(&on_host, DType::f32, {1, 1, 1, 1})};
  EXPECT_TRUE(throws(ErrorCode::invalid_argument, "second.lse lies in memory that cuda:0",
                     [&] { merge(there, here, there, device); }));
}

}  // namespace
}  // namespace rapt::test
