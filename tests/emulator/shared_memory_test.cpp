// Races in shared memory, against a plain history of all accesses.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "src/emulator/shared_memory.hpp"

namespace rapt::emulator {
namespace {

struct Access {
  int thread, first, end;  // granules
  bool writes;
  int block_barriers, wave_barriers;  // before it; wave barriers of its wave
};

class History {
 public:
  explicit History(int wave_size) : wave_size_(wave_size) {}

  void block_barrier() { ++block_barriers_; }
  void wave_barrier(int wave) { ++wave_barriers_[static_cast<std::size_t>(wave)]; }

  // Threads that the access races with; if there are none, it is remembered.
  std::vector<int> add(int thread, int first, int end, bool writes) {
    const Access access = {thread, first,           end,
                           writes, block_barriers_, wave_barriers_[wave_of(thread)]};
    std::vector<int> racing;
    for (const Access& promoted : accesses_) {
      if (races(promoted, access)) racing.push_back(promoted.thread);
    }
    if (racing.empty()) accesses_.push_back(access);
    return racing;
  }

 private:
  std::size_t wave_of(int thread) const { return static_cast<std::size_t>(thread / wave_size_); }

  bool races(const Access& a, const Access& b) const {
    const bool overlap = a.first < b.end && b.first < a.end;
    const bool ordered =
        a.thread == b.thread || a.block_barriers < b.block_barriers ||
        (wave_of(a.thread) == wave_of(b.thread) && a.wave_barriers < b.wave_barriers);
    return overlap && (a.writes || b.writes) && !ordered;
  }

  int wave_size_, block_barriers_ = 0;
  std::vector<int> wave_barriers_ = std::vector<int>(32);
  std::vector<Access> accesses_;
};

struct Tally {
  int races = 0, accesses = 0;
};

// One block of random accesses by three threads of each of two waves, up to the first race.
Tally run_block(SharedMemory& memory, std::mt19937& random, int wave_size) {
  const auto below = [&](int end) {
    return static_cast<int>(random() % static_cast<unsigned>(end));
  };
  memory.begin_block(32, wave_size);
  History history(wave_size);
  Tally tally;
  const int barriers = 1 + below(20), writers = 2 + below(20);  // one access in so many
  while (tally.accesses < 200) {
    if (below(barriers) == 0) {
      memory.block_barrier();
      history.block_barrier();
    }
    const int wave = below(2), thread = wave * wave_size + below(3);
    if (below(barriers) == 0) {
      memory.wave_barrier(wave);
      history.wave_barrier(wave);
    }
    const int count = 1 << below(4), first = below(16 / count) * count;
    const bool writes = below(writers) == 0;
    const int other = writes ? memory.note_write(thread, first * SharedMemory::granule,
                                                 count * SharedMemory::granule)
                             : memory.note_read(thread, first * SharedMemory::granule,
                                                count * SharedMemory::granule);
    const std::vector<int> racing = history.add(thread, first, first + count, writes);
    ++tally.accesses;
    EXPECT_EQ(other != SharedMemory::nobody, !racing.empty());
    if (other == SharedMemory::nobody || racing.empty()) continue;
    EXPECT_NE(std::ranges::find(racing, other), racing.end());
    tally.races = 1;
    break;
  }
  return tally;
}

TEST(EmulatorSharedMemory, FindsARaceExactlyWhereTheHistoryOfAccessesHasOne) {
  std::mt19937 random(7);
  const auto memory = std::make_unique<SharedMemory>();
  Tally total;
  for (int block = 0; block < 3000 && !testing::Test::HasFailure(); ++block) {
    const Tally tally = run_block(*memory, random, block % 2 ? 32 : 64);
    total.races += tally.races;
    total.accesses += tally.accesses;
  }
  EXPECT_GT(total.races, 1000);
  EXPECT_GT(total.accesses, 30'000);
}

TEST(EmulatorSharedMemory, StillFindsRacesAfterMillionsOfBarriers) {
  const auto memory = std::make_unique<SharedMemory>();
  memory->begin_block(4, 32);
  for (int i = 0; i < 3'000'000; ++i) memory->block_barrier();
  EXPECT_EQ(memory->note_write(40, 0, 4), SharedMemory::nobody);
  EXPECT_EQ(memory->note_read(40, 0, 4), SharedMemory::nobody);
  EXPECT_EQ(memory->note_read(5, 0, 2), 40);
  memory->block_barrier();
  EXPECT_EQ(memory->note_read(5, 0, 2), SharedMemory::nobody);
}

}  // namespace
}  // namespace rapt::emulator
