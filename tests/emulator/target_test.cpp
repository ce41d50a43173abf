// What kernels get from the emulator when they are right.
#include "tests/emulator/support.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>
#include <set>

#include "tests/unit/environment.hpp"

namespace rapt::test {
namespace {

template <class Target>
struct CountsVisits : KernelShape<128> {
  static void run(int* visits) {
    const int block = (Target::block_z() * 3 + Target::block_y()) * 5 + Target::block_x();
    std::atomic_ref(visits[block * 128 + Target::thread()]).fetch_add(1);
  }
};

TEST(Emulator, RunsEveryThreadOfEveryBlockOnce) {
  for (const auto& visits : told<CountsVisits>(2 * 3 * 5 * 128, {5, 3, 2}))
    EXPECT_EQ(std::ranges::count(visits, 1), std::ssize(visits));
}

TEST(Emulator, RunsNothingOfAnEmptyGrid) {
  for (const Grid grid : {Grid{0}, Grid{5, 0, 2}, Grid{5, 3, 0}}) {
    for (const auto& visits : told<CountsVisits>(1, grid)) EXPECT_EQ(visits[0], 0);
  }
}

template <class Target>
struct TellsLanes : KernelShape<128> {
  static void run(int* lanes) { lanes[Target::thread()] = 1000 * Target::wave() + Target::lane(); }
};

TEST(Emulator, CutsABlockIntoWaves) {
  const auto lanes = told<TellsLanes>(128);
  for (int thread = 0; thread < 128; ++thread) {
    EXPECT_EQ(lanes[0][thread], 1000 * (thread / 32) + thread % 32);
    EXPECT_EQ(lanes[1][thread], 1000 * (thread / 64) + thread % 64);
  }
}

// Every thread reads what its mirror image wrote, again and again.
template <class Target>
struct Mirrors : KernelShape<192, 192 * 4> {
  static void run(int* result) {
    const auto memory = Target::template shared<int>(0, 192);
    int value = Target::thread();
    for (int step = 0; step < 5; ++step) {
      memory.store(Target::thread(), value);
      Target::block_barrier();
      value = memory.load(191 - Target::thread()) + 1;
      Target::block_barrier();
    }
    result[Target::thread()] = value;
  }
};

TEST(Emulator, ABlockBarrierShowsAllThreadsWhatTheOthersWrote) {
  for (const auto& result : told<Mirrors>(192)) {
    for (int thread = 0; thread < 192; ++thread) EXPECT_EQ(result[thread], 191 - thread + 5);
  }
}

template <class Target>
struct Shuffles : KernelShape<64> {
  static void run(int* result) {
    const int lane = Target::lane();
    int sum = lane;
    for (int mask = 16; mask > 0; mask /= 2) sum += Target::shuffle_xor(sum, mask);
    const double half = Target::shuffle(0.5 * lane, (lane + 1) % Target::wave_size);
    result[Target::thread()] = 10'000 * sum + static_cast<int>(2 * half);
  }
};

TEST(Emulator, AShuffleBringsTheValueOfAnotherLane) {
  const auto results = told<Shuffles>(64);
  for (const int wave_size : {32, 64}) {
    for (int thread = 0; thread < 64; ++thread) {
      const int lane = thread % wave_size, first = lane / 32 * 32;
      const int sum = 32 * first + 31 * 32 / 2;
      EXPECT_EQ(results[wave_size / 64][thread], 10'000 * sum + (lane + 1) % wave_size);
    }
  }
}

// The lower lanes of a wave write for the upper ones, without a block barrier.
template <class Target>
struct PassesWithinWaves : KernelShape<256, 256 * 2> {
  static void run(int* result) {
    const int first = Target::wave() * Target::wave_size;
    const auto memory = Target::template shared<short>(2 * first, Target::wave_size);
    int value = Target::lane();
    for (int step = 0; step < 3; ++step) {
      memory.store(Target::lane(), static_cast<short>(value));
      Target::wave_barrier();
      value = memory.load(Target::lane() ^ 1);
      Target::wave_barrier();
    }
    result[Target::thread()] = value;
  }
};

TEST(Emulator, AWaveBarrierOrdersSharedMemoryAmongTheLanesOfAWave) {
  const auto results = told<PassesWithinWaves>(256);
  for (const int wave_size : {32, 64}) {
    for (int thread = 0; thread < 256; ++thread)
      EXPECT_EQ(results[wave_size / 64][thread], thread % wave_size ^ 1);
  }
}

template <class Target>
struct FindsNaN : KernelShape<64, 4096> {
  static void run(int* found) {
    const auto floats = Target::template shared<float>(0, 1024);
    const auto halves = Target::template shared<F16>(0, 2048);
    bool all = true;
    for (int i = Target::thread(); i < 1024; i += 64) {
      all = all && std::isnan(floats.load(i)) && std::isnan(Target::to_float(halves.load(2 * i))) &&
            std::isnan(Target::to_float(halves.load(2 * i + 1)));
      floats.store(i, 0);
    }
    found[Target::block_x() * 64 + Target::thread()] = all;
  }
};

TEST(Emulator, FillsSharedMemoryWithNaNForEveryBlock) {
  for (const auto& found : told<FindsNaN>(20 * 64, {20}))
    EXPECT_EQ(std::ranges::count(found, 1), std::ssize(found));
}

template <class Target>
struct Vectors : KernelShape<64, 64 * 16> {
  static void run(int* memory) {
    using Four = gpu::Vector<int, 4>;
    const auto shared = Target::template shared<int>(0, 256);
    const int t = Target::thread();
    shared.store_vector(4 * t, Four{{t, t + 1, t + 2, t + 3}});
    Target::block_barrier();
    const Four other = shared.template load_vector<4>(4 * (63 - t));
    Target::store(reinterpret_cast<Four*>(memory) + t, other);
    const Four back = Target::load_once(reinterpret_cast<const Four*>(memory) + t);
    Target::store_once(memory + 256 + t, Target::load(&memory[4 * t]) + back.at[3]);
  }
};

TEST(Emulator, MovesVectorsThroughSharedAndGlobalMemory) {
  for (const auto& memory : told<Vectors>(320)) {
    for (int t = 0; t < 64; ++t) {
      for (int i = 0; i < 4; ++i) EXPECT_EQ(memory[4 * t + i], 63 - t + i);
      EXPECT_EQ(memory[256 + t], 63 - t + 63 - t + 3);
    }
  }
}

template <class Target>
struct LeavesEarly : KernelShape<128> {
  static void run(int* result) {
    if (Target::wave() == 1) return;
    result[Target::thread()] = Target::shuffle(Target::thread(), 3);
    if (Target::thread() % 2) return;
    result[Target::thread()] += 1;
  }
};

TEST(Emulator, LetsThreadsEndWhereNobodyWaitsForThem) {
  const auto results = told<LeavesEarly>(128);
  EXPECT_EQ(results[0][0], 4);
  EXPECT_EQ(results[0][31], 3);
  EXPECT_EQ(results[0][32], 0);
  EXPECT_EQ(results[1][63], 3);
}

template <class Target>
struct Converts : KernelShape<64> {
  static void run(int* result) {
    const float third = 1.0f / 3;
    result[0] = Target::template from_float<F16>(third).bits;
    result[1] = Target::template from_float<BF16>(third).bits;
    result[2] = Target::to_float(F16{0x3c00}) == 1 && Target::to_float(BF16{0x3f80}) == 1;
    result[3] = Target::exp2(-INFINITY) == 0 && Target::exp2(3) == 8;
    result[4] = Target::log2(0) == -INFINITY && Target::log2(8) == 3;
  }
};

TEST(Emulator, ConvertsAndTakesPowersAndLogarithms) {
  for (const auto& result : told<Converts>(5))
    EXPECT_EQ(result, (std::vector{0x3555, 0x3eab, 1, 1, 1}));
}

// Which thread of a block came when, before and after a shuffle.
template <class Target>
struct TellsOrder : KernelShape<64> {
  static void run(int* result) {
    int* const block = result + Target::block_x() * 131;
    block[2 + block[0]++] = Target::thread();
    Target::block_barrier();
    block[66 + block[1]++] = Target::thread();
  }
};

std::vector<int> order_of_threads(const char* seed) {
  const ScopedVariable variable("RAPT_EMULATOR_SEED", seed);
  return told<TellsOrder>(2 * 131, {2})[1];
}

TEST(Emulator, RunsThreadsInAnOrderThatFollowsTheSeedTheBlockAndTheBarriers) {
  const std::vector<int> result = order_of_threads("1");
  EXPECT_EQ(result, order_of_threads("1"));
  EXPECT_NE(result, order_of_threads("2"));
  std::set<std::vector<int>> orders;
  for (const int first : {2, 66, 131 + 2, 131 + 66}) {
    std::vector<int> order(result.begin() + first, result.begin() + first + 64);
    orders.insert(order);
    std::ranges::sort(order);
    std::vector<int> all(64);
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(order, all);
  }
  EXPECT_EQ(orders.size(), 4u);
}

TEST(Emulator, SaysWhatASeedMustBe) {
  try {
    order_of_threads("often");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_NE(std::string(error.what()).find("RAPT_EMULATOR_SEED is 'often'"), std::string::npos);
  }
}

}  // namespace
}  // namespace rapt::test
