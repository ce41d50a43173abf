// How the rates of a GPU follow from times, with a clock that says how long each launch took.
#include <gtest/gtest.h>

#include "src/portable/limits.hpp"

namespace rapt::gpu {
namespace {

LimitsParameters last_launch;

void remember(const LimitsParameters& parameters, Where) { last_launch = parameters; }

class ScriptedClock : public StreamClock {
 public:
  void* stream() const override { return nullptr; }
  void clear_cache() override {}
  void start() override {}
  double stop() override { return ++stops_ % 7 == 3 ? 1 : 2; }  // the best counts
  void capture(const std::function<void()>&) override {}
  void replay() override {}

 private:
  int stops_ = 0;
};

TEST(GpuRates, CountTheBytesAndFlopsOfTheBestTime) {
  Device device = Device::cpu(1);
  device.multiprocessors = 3;
  device.nominal.memory_bytes = 8 * double(1 << 20);
  ScriptedClock clock;
  const Rates rates = measure_rates(device, clock, remember);
  const double bytes = double(last_launch.vectors) * sizeof(Vector16);
  EXPECT_EQ(bytes, 1 << 20);  // an eighth of the memory
  EXPECT_EQ(rates.read_bandwidth, bytes);
  EXPECT_EQ(rates.copy_bandwidth, 2 * bytes);
  const double multiply_adds = double(last_launch.blocks) * last_launch.rounds * 256 * 8 * 32;
  EXPECT_EQ(rates.f32_flops, 2 * multiply_adds);
  EXPECT_EQ(last_launch.blocks % device.multiprocessors, 0);
  EXPECT_EQ(rates.matrix_flops, 0);
}

}  // namespace
}  // namespace rapt::gpu
