#include "src/emulator/launcher.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "src/core/environment.hpp"
#include "src/core/fault.hpp"
#include "src/core/parallel.hpp"
#include "src/core/text.hpp"
#include "src/cpu/thread_pool.hpp"

namespace rapt::emulator {
namespace {

using gpu::Index;

void require_within(const char* what, Index value, Index most) {
  if (value >= 0 && value <= most) return;
  throw Error(ErrorCode::device_failure,
              text("a launch has ", value, " ", what, "; a GPU takes ", most, " at most"));
}

constexpr Index most_threads_x = 0xffffffff;  // AMD's limit

void require_possible(const Work& work) {
  require_within("blocks along x", work.grid.x, gpu::most_blocks_x);
  require_within("blocks along y", work.grid.y, gpu::most_blocks_yz);
  require_within("blocks along z", work.grid.z, gpu::most_blocks_yz);
  require_within("threads in a block", work.threads, gpu::most_threads_of_block);
  require_within("threads along x", work.grid.x * work.threads, most_threads_x);
  require_within("bytes of shared memory", work.shared_bytes, work.shared_limit);
  if (work.threads < 1 || work.threads % most_wave_size != 0) {
    throw Error(ErrorCode::device_failure,
                text("a launch has ", work.threads,
                     " threads in a block; it must be a multiple of ", most_wave_size));
  }
}

// RAPT_EMULATOR_SEED: the order in which threads of a block run follows it.
std::uint64_t seed() {
  const std::string value = environment_text("RAPT_EMULATOR_SEED");
  if (value.empty()) return 1;
  const auto number = parse_number<std::uint64_t>(value);
  if (!number) fault("RAPT_EMULATOR_SEED is '", value, "'; it must be a whole number from 0 on");
  return *number;
}

// The fault of the block with the least number. Blocks are taken in order, so that all before it
// have run or still do.
class FirstFault {
 public:
  bool precedes(Index block) const { return block_.load(std::memory_order_relaxed) < block; }
  void add(Index block, std::exception_ptr fault) {
    const std::lock_guard lock(mutex_);
    if (precedes(block)) return;
    block_ = block;
    fault_ = std::move(fault);
  }
  void rethrow() const {
    if (fault_) std::rethrow_exception(fault_);
  }

 private:
  std::mutex mutex_;
  std::atomic<Index> block_ = std::numeric_limits<Index>::max();
  std::exception_ptr fault_;
};

// Each thread of the machine keeps its fibers and shared memory for the blocks to come.
Block& block_of_this_machine_thread() {
  static thread_local const auto block = std::make_unique<Block>();
  return *block;
}

}  // namespace

void run_grid(const Work& work) {
  require_possible(work);
  const gpu::Grid grid = work.grid;
  const std::uint64_t seed_of_grid = seed();
  const auto threads = environment_threads().value_or(
      static_cast<std::int32_t>(std::clamp(std::thread::hardware_concurrency(), 1u, 64u)));
  FirstFault first_fault;
  parallel_for_slots(shared_thread_pool(threads), threads, grid.x * grid.y * grid.z,
                     [&](std::int64_t, std::int64_t block) {
                       if (first_fault.precedes(block)) return;
                       try {
                         const Block::Place place = {
                             .x = static_cast<int>(block % grid.x),
                             .y = static_cast<int>(block / grid.x % grid.y),
                             .z = static_cast<int>(block / grid.x / grid.y)};
                         block_of_this_machine_thread().run(
                             work, place, RandomOrder::of_block(seed_of_grid, block));
                       } catch (...) {
                         first_fault.add(block, std::current_exception());
                       }
                     });
  first_fault.rethrow();
}

}  // namespace rapt::emulator
