// An emulated block of threads, each a fiber. A thread runs until it must wait for others, at a
// barrier, in a shuffle or another operation of its wave; in which order threads run is drawn anew
// after each.
#pragma once

#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "src/emulator/async_copies.hpp"
#include "src/emulator/fibers.hpp"
#include "src/emulator/here.hpp"
#include "src/emulator/random_order.hpp"
#include "src/emulator/shared_memory.hpp"

namespace rapt::emulator {

// A kernel to be run: what a GPU is told at a launch.
struct Work {
  gpu::Grid grid;
  int threads, shared_bytes, shared_limit, wave_size;
  void (*run)(const void* parameters);  // what every thread does
  const void* parameters;
};

// Where a thread has stopped: nowhere yet, to wait for others, or for good.
enum class Stop { nowhere, block_barrier, wave_barrier, shuffle_xor, shuffle, ldmatrix, mma, end };

class Block;
struct Thread;

// What the lanes of a wave do together, once all have come with their operands.
using WaveOperation = void (*)(std::span<Thread> lanes);

struct Thread {
  Block* block = nullptr;
  int index = 0, lane = 0, wave = 0;
  Stop stop = Stop::nowhere;
  Here here = {};                     // the line of the stop
  std::uint64_t value = 0;            // what it brings to a shuffle, then what it takes from it
  int from = 0;                       // a shuffle's mask or lane
  WaveOperation operation = nullptr;  // of an ldmatrix or mma
  void* operands = nullptr;           // what the lane brings to it, and takes from it
  AsyncCopies copies = {};
};

// The thread that runs, while one does.
extern constinit thread_local Thread* current_thread;

class Block {
 public:
  struct Place {
    int x, y, z;
  };

  Block() = default;
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  // Runs one block of a grid. Throws Error with the first fault of its threads.
  void run(const Work& work, Place place, RandomOrder order);

  // For its threads:
  Place place() const { return place_; }
  int threads() const { return work_.threads; }
  SharedMemory& memory() { return memory_; }
  // Returns when all who must come have come.
  void wait(Thread& thread, Stop stop, Here here);
  std::uint64_t shuffle(Thread& thread, Stop stop, std::uint64_t value, int from, Here here);
  void take_part(Thread& thread, Stop stop, WaveOperation operation, void* operands, Here here);
  // Throws the Error that ends the block: "<what>; <rule>".
  [[noreturn]] void fail(const std::string& what, const std::string& rule) const;

 private:
  struct Abandoned {};  // thrown to end a thread after another one's fault

  void run_thread(Thread& thread);
  void run_to_end();
  void run_to_block_barrier(int wave);
  void run_lanes(int first);
  int next_of_round();
  void finish_wave_operation(int first);
  void exchange_values(int first);
  void abandon();
  [[noreturn]] void fail_apart(const Thread& one, const Thread& other,
                               const std::string& rule) const;

  Fibers fibers_;
  SharedMemory memory_;
  std::vector<Thread> threads_;
  Work work_ = {};
  Place place_ = {};
  RandomOrder order_;
  // The lanes of one wave in some order, each up to its next stop.
  struct Round {
    RandomOrder::Permutation order;
    int first, next, end;
  } round_ = {};
  std::exception_ptr fault_;
  bool abandoned_ = false;
};

}  // namespace rapt::emulator
