// Kernels that are wrong on purpose, each in one way, and what the emulator says of them.
#include "tests/emulator/support.hpp"

#include <memory>

namespace rapt::test {
namespace {

template <class Target>
struct SkipsBarrier : KernelShape<128> {
  static void run(int*) {
    if (Target::thread() != 70) Target::block_barrier();
  }
};

TEST(EmulatorFaults, ABlockBarrierThatAThreadDoesNotReachBeforeItsEnd) {
  expect_fault<SkipsBarrier>({"block (0, 0, 0)", "waits at the block barrier of faults_test.cpp:",
                              "thread 70 has ended", "must reach the same barrier"});
}

template <class Target>
struct TakesOtherBarrier : KernelShape<128> {
  static void run(int*) {
    if (Target::thread() < 64)
      Target::block_barrier();
    else
      Target::block_barrier();
  }
};

TEST(EmulatorFaults, ThreadsAtDifferentBlockBarriers) {
  expect_fault<TakesOtherBarrier>({"thread 0 waits at the block barrier of faults_test.cpp:",
                                   "and thread 64 waits at the block barrier of"});
}

template <class Target>
struct ShufflesAtBarrier : KernelShape<64> {
  static void run(int* result) {
    if (Target::thread() == 5)
      Target::block_barrier();
    else
      *result = Target::shuffle_xor(1, 1);
  }
};

TEST(EmulatorFaults, AShuffleWhileALaneWaitsAtABlockBarrier) {
  expect_fault<ShufflesAtBarrier>(
      {"thread 0 waits at the shuffle of faults_test.cpp:", "thread 5 waits at the block barrier",
       "all lanes of a wave must take part in the same operation"});
}

template <class Target>
struct ShufflesInHalf : KernelShape<64> {
  static void run(int* result) {
    if (Target::thread() < 16 || Target::wave() > 0) *result = Target::shuffle(1, 0);
  }
};

TEST(EmulatorFaults, AShuffleThatLanesOfTheWaveDoNotReach) {
  expect_fault<ShufflesInHalf>(
      {"thread 0 waits at the shuffle of faults_test.cpp:", "and thread 16 has ended"});
}

template <class Target>
struct ShufflesInBothBranches : KernelShape<64> {
  static void run(int* result) {
    if (Target::thread() == 1)
      *result = Target::shuffle(1, 0);
    else
      *result = Target::shuffle(2, 0);
  }
};

TEST(EmulatorFaults, DifferentShufflesInTheBranchesOfAWave) {
  expect_fault<ShufflesInBothBranches>({"thread 0 waits at the shuffle of faults_test.cpp:",
                                        "and thread 1 waits at the shuffle of faults_test.cpp:"});
}

template <class Target>
struct WaveBarrierInOneLane : KernelShape<64> {
  static void run(int*) {
    if (Target::thread() == 3) Target::wave_barrier();
    Target::block_barrier();
  }
};

TEST(EmulatorFaults, AWaveBarrierInDivergentCode) {
  expect_fault<WaveBarrierInOneLane>({"thread 3 waits at the wave barrier of faults_test.cpp:",
                                      "thread 0 waits at the block barrier"});
}

template <class Target>
struct DifferentMasks : KernelShape<64> {
  static void run(int* result) { *result = Target::shuffle_xor(1, Target::thread() == 8 ? 2 : 1); }
};

TEST(EmulatorFaults, AShuffleWhoseLanesDoNotAgreeOnTheMask) {
  expect_fault<DifferentMasks>(
      {"thread 0 has the mask 1 and thread 8 has 2", "must have the same"});
}

template <class Target>
struct LargeMask : KernelShape<64> {
  static void run(int* result) { *result = Target::shuffle_xor(1, 32); }
};
template <class Target>
struct NegativeMask : KernelShape<64> {
  static void run(int* result) { *result = Target::shuffle_xor(1, -1); }
};
template <class Target>
struct LaneOutsideWave : KernelShape<64> {
  static void run(int* result) { *result = Target::shuffle(1, Target::wave_size); }
};

TEST(EmulatorFaults, AShuffleFromOutsideTheWave) {
  expect_fault<LargeMask>({"shuffles with the mask 32", "from 0 to 31"});
  expect_fault<NegativeMask>({"shuffles with the mask -1", "from 0 to 31"});
  expect_fault<LaneOutsideWave>({"shuffles with the lane", "it must be from 0 to"});
}

// A thread touches a word and another one does, with something between that orders nothing.
template <class Target, class First, class Second, class Between>
void touch(int one, int other, First first, Between between, Second second) {
  const auto memory = Target::template shared<float>(0, 16);
  if (Target::thread() == one) first(memory);
  between();
  if (Target::thread() == other) second(memory);
}
constexpr auto writes = [](auto memory) { memory.store(7, 1); };
constexpr auto reads = [](auto memory) { static_cast<void>(memory.load(7)); };
constexpr auto nothing = [] {};

template <class Target>
struct BothWrite : KernelShape<128, 64> {
  static void run(int*) { touch<Target>(3, 100, writes, nothing, writes); }
};
template <class Target>
struct OneReads : KernelShape<128, 64> {
  static void run(int*) { touch<Target>(3, 100, writes, nothing, reads); }
};

TEST(EmulatorFaults, ARaceBetweenTwoThreads) {
  expect_fault<BothWrite>({"writes 4 bytes of shared memory at byte 28", "that thread ",
                           "touched before", "faults_test.cpp:", "must be a barrier between"});
  expect_fault<OneReads>({"4 bytes of shared memory at byte 28", "touched before"});
}

template <class Target>
struct WritesAfterShuffle : KernelShape<64, 64> {
  static void run(int*) {
    touch<Target>(
        3, 4, reads, [] { Target::shuffle_xor(1, 1); }, writes);
  }
};

TEST(EmulatorFaults, ARaceThatOnlyAShuffleSeparates) {
  expect_fault<WritesAfterShuffle>({"thread 4 writes 4 bytes", "that thread 3 touched before"});
}

template <class Target>
struct WaveBarrierBetweenWaves : KernelShape<128, 64> {
  static void run(int*) {
    touch<Target>(
        3, 100, writes, [] { Target::wave_barrier(); }, reads);
  }
};

TEST(EmulatorFaults, ARaceOfTwoWavesThatOnlyAWaveBarrierSeparates) {
  expect_fault<WaveBarrierBetweenWaves>({"at byte 28", "touched before"});
}

// Many read, in two waves, and with wave barriers between; then one of the readers writes.
template <class Target>
struct OverwritesOtherWavesInput : KernelShape<128, 64> {
  static void run(int*) {
    const auto memory = Target::template shared<float>(0, 16);
    static_cast<void>(memory.load(7));
    Target::wave_barrier();
    if (Target::wave() == 0) static_cast<void>(memory.load(7));
    Target::wave_barrier();
    if (Target::thread() == 0) memory.store(7, 1);
  }
};

TEST(EmulatorFaults, ARaceWithReadersOfAnotherWaveAmongManyReaders) {
  expect_fault<OverwritesOtherWavesInput>({"at byte 28", "touched before"});
}

template <class Target>
struct OverlappingVectors : KernelShape<64, 64> {
  static void run(int*) {
    const auto words = Target::template shared<float>(0, 16);
    const auto halves = Target::template shared<F16>(0, 32);
    if (Target::thread() == 0) words.store_vector(4, gpu::Vector<float, 4>{});
    if (Target::thread() == 1) halves.store(15, F16{});
  }
};

TEST(EmulatorFaults, ARaceOfAVectorWithItsLastHalfWord) {
  expect_fault<OverlappingVectors>({"touched before"});
}

template <class Target>
struct RightlyShared : KernelShape<128, 512> {
  static void run(int*) {
    const auto halves = Target::template shared<F16>(0, 128);
    const int thread = Target::thread();
    halves.store(thread, F16{});             // neighbours share a word, not a half
    static_cast<void>(halves.load(thread));  // its own
    Target::wave_barrier();
    static_cast<void>(halves.load(thread ^ 1));  // written in its wave before the barrier
    Target::wave_barrier();
    halves.store(thread, F16{});  // read in its wave before the barrier
    Target::block_barrier();
    static_cast<void>(halves.load(127 - thread));
    static_cast<void>(halves.load(5));  // all read the same
    Target::block_barrier();
    halves.store(127 - thread, F16{});
  }
};

TEST(EmulatorFaults, AreNotFoundWhereBarriersSeparateAccesses) {
  expect_no_fault<RightlyShared>({3});
}

// A thread copies to where another one, or itself, then reads.
template <class Target, class Wait, class Between>
void read_copy(const int* from, int reader, Wait wait, Between between) {
  if (Target::thread() == 3) {
    Target::cp_async(Target::shared_address() + 16, from, true);
    Target::cp_async_commit();
    wait();
  }
  between();
  uint32_t four[4];
  if (Target::thread() == reader) Target::load_shared(Target::shared_address() + 16, four);
}
// As memory for cp_async must be.
int* aligned(int* memory) {
  return reinterpret_cast<int*>((reinterpret_cast<std::uintptr_t>(memory) + 15) / 16 * 16);
}

template <class Target>
struct ReadsOwnCopyAtOnce : KernelShape<64, 64> {
  static void run(int* memory) { read_copy<Target>(aligned(memory), 3, nothing, nothing); }
};
template <class Target>
struct ReadsCopyAfterBarrierAlone : KernelShape<64, 64> {
  static void run(int* memory) {
    read_copy<Target>(aligned(memory), 40, nothing, [] { Target::block_barrier(); });
  }
};
template <class Target>
struct WaitsForGroupsBeforeTheCopy : KernelShape<64, 64> {
  static void run(int* memory) {
    read_copy<Target>(
        aligned(memory), 3, [] { Target::cp_async_wait_previous(); }, nothing);
  }
};
template <class Target>
struct ReadsCopyAfterWaitAlone : KernelShape<64, 64> {
  static void run(int* memory) {
    // The reader comes last: a shuffle orders nothing.
    read_copy<Target>(
        aligned(memory), 4, [] { Target::cp_async_wait_all(); }, [] { Target::shuffle_xor(1, 1); });
  }
};
template <class Target>
struct ReadsCopyAfterWaitAndBarrier : KernelShape<64, 64> {
  static void run(int* memory) {
    read_copy<Target>(
        aligned(memory), 40, [] { Target::cp_async_wait_all(); }, [] { Target::block_barrier(); });
  }
};

TEST(EmulatorFaults, AnAsynchronousCopyThatIsReadBeforeItHasArrived) {
  expect_fault_of_warp<ReadsOwnCopyAtOnce>({"thread 3 reads 16 bytes of shared memory at byte 16",
                                            "an asynchronous copy of thread 3",
                                            "faults_test.cpp:", "must wait for its copies first"});
  expect_fault_of_warp<ReadsCopyAfterBarrierAlone>(
      {"thread 40 reads 16 bytes", "an asynchronous copy of thread 3 goes to"});
  expect_fault_of_warp<WaitsForGroupsBeforeTheCopy>(
      {"thread 3 reads 16 bytes", "an asynchronous copy of thread 3 goes to"});
  expect_fault_of_warp<ReadsCopyAfterWaitAlone>(
      {"thread 4 reads 16 bytes", "that thread 3 touched before", "must be a barrier between"});
  EXPECT_EQ((fault<ReadsCopyAfterWaitAndBarrier, 32>()), "");
}

template <class Target>
struct CopiesOverWhatOthersRead : KernelShape<64, 64> {
  static void run(int* memory) {
    const auto words = Target::template shared<float>(0, 16);
    if (Target::thread() == 4) static_cast<void>(words.load(7));
    Target::shuffle_xor(1, 1);
    if (Target::thread() == 3)
      Target::cp_async(Target::shared_address() + 16, aligned(memory), true);
  }
};
template <class Target>
struct StoresUnderCopy : KernelShape<64, 64> {
  static void run(int* memory) {
    if (Target::thread() == 3)
      Target::cp_async(Target::shared_address() + 16, aligned(memory), true);
    Target::block_barrier();
    if (Target::thread() == 4) Target::template shared<float>(0, 16).store(4, 1);
  }
};
template <class Target>
struct LeavesCopiesToTheirFate : KernelShape<64, 64> {
  static void run(int* memory) {
    const auto words = Target::template shared<float>(0, 16);
    if (Target::thread() == 9) static_cast<void>(words.load(5));
    Target::block_barrier();
    if (Target::thread() == 3)
      Target::cp_async(Target::shared_address() + 16, aligned(memory), true);
  }
};

TEST(EmulatorFaults, AnAsynchronousCopyToWhatIsInUse) {
  expect_fault_of_warp<CopiesOverWhatOthersRead>(
      {"thread 3 copies to 16 bytes of shared memory at byte 16", "that thread 4 touched before"});
  expect_fault_of_warp<StoresUnderCopy>(
      {"thread 4 writes 4 bytes", "an asynchronous copy of thread 3 goes to"});
}

TEST(EmulatorFaults, AreNotFoundInABlockAfterOneThatLeftCopiesUnderWay) {
  EXPECT_EQ((fault<LeavesCopiesToTheirFate, 32>({9})), "");
}

// The words of a lane, as far as nobody looks at them.
struct Fragment {
  uint32_t words[4] = {};
  float sums[4] = {};
};

template <class Target>
struct MultipliesInHalf : KernelShape<64> {
  static void run(int*) {
    Fragment f;
    if (Target::thread() < 16)
      Target::template mma<F16>(f.sums[0], f.sums[1], f.sums[2], f.sums[3], f.words, 0, 0);
  }
};
template <class Target>
struct LoadsMatricesInHalf : KernelShape<64, 64> {
  static void run(int*) {
    Fragment f;
    if (Target::thread() == 33)
      Target::ldmatrix(Target::shared_address(), f.words);
    else
      Target::block_barrier();
  }
};
template <class Target>
struct OtherProducts : KernelShape<64> {
  template <class Element>
  static void multiply() {
    Fragment f;
    Target::template mma<Element>(f.sums[0], f.sums[1], f.sums[2], f.sums[3], f.words, 0, 0);
  }
  static void run(int*) { Target::thread() == 39 ? multiply<F16>() : multiply<BF16>(); }
};

TEST(EmulatorFaults, AMatrixOperationThatLanesOfTheWarpDoNotReach) {
  expect_fault_of_warp<MultipliesInHalf>(
      {"thread 0 waits at the mma of faults_test.cpp:", "and thread 16 has ended",
       "all lanes of a wave must take part"});
  expect_fault_of_warp<LoadsMatricesInHalf>({"thread 33 waits at the ldmatrix of faults_test.cpp:",
                                             "and thread 32 waits at the block barrier"});
  expect_fault_of_warp<OtherProducts>({"thread 32 waits at the mma of", "and thread 39 waits at"});
}

// A lane of warp 1 writes a row of the matrices that warp 0 loads.
template <class Target, bool transposed>
void load_what_is_written() {
  Fragment f;
  const uint32_t memory = Target::shared_address();
  if (Target::thread() == 32 + 5) Target::store_shared(memory + 5 * 16, f.words);
  if (Target::wave() == 1) return;
  const uint32_t row = memory + Target::lane() % 8 * 16;
  if constexpr (transposed)
    Target::ldmatrix_transposed(row, f.words);
  else
    Target::ldmatrix(row, f.words);
}
template <class Target>
struct LoadsRacingRow : KernelShape<64, 128> {
  static void run(int*) { load_what_is_written<Target, false>(); }
};
template <class Target>
struct LoadsRacingColumn : KernelShape<64, 128> {
  static void run(int*) { load_what_is_written<Target, true>(); }
};
template <class Target>
struct LoadsRowUnderCopy : KernelShape<64, 128> {
  static void run(int* memory) {
    Fragment f;
    if (Target::thread() < 8)
      Target::cp_async(Target::shared_address() + Target::lane() * 16, aligned(memory), true);
    Target::block_barrier();
    Target::ldmatrix(Target::shared_address() + Target::lane() % 8 * 16, f.words);
  }
};

TEST(EmulatorFaults, MatricesThatAreLoadedWhileTheyChange) {
  expect_fault_of_warp<LoadsRacingRow>({"of shared memory at byte 8", "touched before"});
  expect_fault_of_warp<LoadsRacingColumn>({"of shared memory at byte 8", "touched before"});
  expect_fault_of_warp<LoadsRowUnderCopy>({"an asynchronous copy of thread "});
}

template <class Target>
struct MatrixOutsideMemory : KernelShape<64, 128> {
  static void run(int*) {
    Fragment f;
    Target::ldmatrix(Target::shared_address() + Target::thread() / 63 * 128, f.words);
  }
};
template <class Target>
struct OffsetForAddress : KernelShape<64, 128> {
  static void run(int*) {
    Fragment f;
    Target::ldmatrix(0, f.words);
  }
};
template <class Target>
struct MisalignedMatrix : KernelShape<64, 128> {
  static void run(int*) {
    Fragment f;
    Target::ldmatrix(Target::shared_address() + 8, f.words);
  }
};
template <class Target>
struct MisalignedCopy : KernelShape<64, 128> {
  static void run(int* memory) {
    Target::cp_async(Target::shared_address(), aligned(memory) + 1, false);
  }
};

TEST(EmulatorFaults, AnAddressOutsideSharedMemoryOrNotAlignedTo16Bytes) {
  expect_fault_of_warp<MatrixOutsideMemory>(
      {"thread 63 touches element 32 to 35 of shared memory"});
  expect_fault_of_warp<OffsetForAddress>({"touches element -256 to -253 of shared memory"});
  expect_fault_of_warp<MisalignedMatrix>({"16 bytes of shared memory at byte 8"});
  expect_fault_of_warp<MisalignedCopy>({"16 bytes of global memory", "4 past a multiple of that"});
}

template <class Target>
struct PartialBarrier : KernelShape<128> {
  static void run(int*) {
    if (Target::thread() < 64) Target::barrier_of_first(64);
  }
};

TEST(EmulatorFaults, ABarrierOfAPartOfTheBlockIsNotEmulated) {
  expect_fault_of_warp<PartialBarrier>(
      {"waits for the first 64 threads of the block", "this one has 128 threads"});
}

template <class Target>
struct ViewTooLong : KernelShape<64, 256> {
  static void run(int*) { Target::template shared<float>(64, 49); }
};
template <class Target>
struct IndexTooLarge : KernelShape<64, 256> {
  static void run(int*) { Target::template shared<float>(0, 16).store(16, 1); }
};
template <class Target>
struct NegativeIndex : KernelShape<64, 256> {
  static void run(int*) { static_cast<void>(Target::template shared<float>(64, 16).load(-1)); }
};
template <class Target>
struct VectorAcrossEnd : KernelShape<64, 256> {
  static void run(int*) {
    static_cast<void>(Target::template shared<F16>(0, 14).template load_vector<8>(8));
  }
};

TEST(EmulatorFaults, SharedMemoryOutsideWhatTheKernelHas) {
  expect_fault<ViewTooLong>(
      {"a view of 196 bytes of shared memory from byte 64 on", "the kernel declares 256 bytes"});
  expect_fault<IndexTooLarge>({"touches element 16 of shared memory", "the view has 16 elements"});
  expect_fault<NegativeIndex>({"touches element -1 of shared memory"});
  expect_fault<VectorAcrossEnd>({"touches element 8 to 15", "the view has 14 elements"});
}

template <class Target>
struct MisalignedVector : KernelShape<64, 256> {
  static void run(int*) {
    static_cast<void>(Target::template shared<float>(0, 64).template load_vector<4>(2));
  }
};
template <class Target>
struct MisalignedView : KernelShape<64, 256> {
  static void run(int*) { Target::template shared<float>(2, 4); }
};
template <class Target>
struct MisalignedLoad : KernelShape<64> {
  static void run(int* memory) {
    const auto odd = reinterpret_cast<std::uintptr_t>(memory) / 16 * 16 + 20;
    static_cast<void>(Target::load(reinterpret_cast<const gpu::Vector<float, 4>*>(odd)));
  }
};

TEST(EmulatorFaults, AnAccessThatIsNotAlignedToItsSize) {
  expect_fault<MisalignedVector>({"16 bytes of shared memory at byte 8", "aligned to its size"});
  expect_fault<MisalignedView>({"4 bytes of shared memory at byte 2"});
  expect_fault<MisalignedLoad>({"16 bytes of global memory", "4 past a multiple of that"});
}

template <class Target>
struct Nothing : KernelShape<64> {
  static void run(int*) {}
};
template <class Target>
struct ManyThreads : KernelShape<1088> {
  static void run(int*) {}
};
template <class Target>
struct OddThreads : KernelShape<96> {
  static void run(int*) {}
};
template <class Target>
struct MuchSharedMemory : KernelShape<64, (64 << 10) + 4> {
  static void run(int*) {}
};

TEST(EmulatorFaults, ALaunchBeyondTheLimitsOfAGpu) {
  expect_fault<Nothing>({"2147483648 blocks along x", "2147483647 at most"}, {Index{1} << 31});
  expect_fault<Nothing>({"65536 blocks along y", "65535 at most"}, {1, 65536});
  expect_fault<Nothing>({"65536 blocks along z", "65535 at most"}, {1, 1, 65536});
  expect_fault<Nothing>({"4294967296 threads along x", "4294967295 at most"}, {Index{1} << 26});
  expect_fault<ManyThreads>({"1088 threads in a block", "1024 at most"});
  expect_fault<OddThreads>({"96 threads in a block", "a multiple of 64"});
  expect_fault<MuchSharedMemory>({"65540 bytes of shared memory", "65536 at most"});
  expect_no_fault<Nothing>({1, 1, 65535});
}

template <class Target>
struct FailsInSomeBlocks : KernelShape<64> {
  static void run(int*) {
    if (Target::block_y() > 0 && Target::block_x() > 1 && Target::thread() > 0)
      Target::block_barrier();
  }
};

TEST(EmulatorFaults, OfSeveralBlocksTheFirstIsReported) {
  for (int i = 0; i < 10; ++i) expect_fault<FailsInSomeBlocks>({"block (2, 1, 0)"}, {9, 9});
}

// Threads own memory while they wait and another one fails.
template <class Target>
struct OwnsMemory : KernelShape<64, 64> {
  static void run(int*) {
    const auto owned = std::make_unique<int>(Target::thread());
    if (*owned == 33) static_cast<void>(Target::template shared<float>(0, 1).load(1));
    Target::block_barrier();
  }
};

TEST(EmulatorFaults, LeaveNothingBehind) {
  for (int i = 0; i < 3; ++i) {
    expect_fault<OwnsMemory>({"thread 33 touches element 1"}, {4});
    expect_no_fault<RightlyShared>({4});
  }
}

}  // namespace
}  // namespace rapt::test
