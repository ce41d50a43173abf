// A model of a few Hopper multiprocessors, for kernels that the emulator cannot run: whose warps
// have roles of their own, meet at mbarriers, and leave copies and products to units that work
// beside them.
//
// All blocks of a launch are there at once, each thread a fiber. A thread runs until it waits for
// something; whose turn is next is drawn at random, and so is when a copy or a batch of products
// that was begun is carried out: at any time from then on until somebody waits for it. Products see
// shared memory and registers as they are at that time. So what a kernel does too early or too late
// shows in its results, or as the threads that wait for ever, who are named.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace rapt::model {

inline constexpr int warp_threads = 32, warpgroup_threads = 4 * warp_threads;
inline constexpr std::uint32_t first_shared_address = 1024;

struct Launch {
  int blocks, threads, shared_bytes;
  bool all_at_once;  // blocks wait for each other
  void (*run)(const void* parameters);
  const void* parameters;
};

// Throws Error with the first fault of a thread.
void run(const Launch& launch);

// For the threads of a launch:

// Returns when it is ready; `what` tells what for.
void wait_until(const char* what, const std::function<bool()>& ready);

// What the lanes of a warp do together once all have come with their operands, which are given by
// lane. All must come for the same.
using Operation = void (*)(void* const* operands);
void together(const char* what, Operation operation, void* operand);

// Begins what a unit beside the threads does at some time.
void begin(std::function<void()> work);
// The same for a copy out of shared memory, which its thread can wait for: it reads first, and
// writes at some time after that.
void begin_store(std::function<void()> read, std::function<void()> write);
void wait_for_stores(bool only_read);

// A barrier of a block, by its number: waits until so many threads have arrived, or only arrives.
void arrive_at_named_barrier(int barrier, int threads, bool waits);

// Shared memory of the thread's block by its addresses.
std::byte* at_shared_address(std::uint32_t address, int bytes);
std::uint32_t shared_address_of(const void* memory);

// A product of a warpgroup, as one thread sees it: D (64, n) += A (64, k) · B (k, n). `a` is null
// where A lies in shared memory, as a_descriptor says.
struct Product {
  enum class Type { f16, bf16, tf32 } type;
  int n;
  float* d;  // the thread's n / 2 of it
  const std::uint32_t* a;
  std::uint64_t a_descriptor, b_descriptor;
  bool a_is_mn_major, b_is_mn_major, add;
};
void begin_product(const Product& product);
void commit_products();
void wait_for_products(int batches_left);

// Throws the Error that ends the launch.
[[noreturn]] void fail(const char* what);

}  // namespace rapt::model
