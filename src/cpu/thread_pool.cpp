// The gate is the invariant. A worker reads the job only while the gate counts it as inside, it
// comes in only while the gate is open, and the caller returns only once it has closed the gate and
// seen it empty. So a worker that wakes late finds the gate closed, touches nothing and keeps
// nobody waiting, and the job's fields change only while nobody can read them. Coming in acquires
// what the caller released by opening; the caller's last look at the gate acquires what each worker
// released by leaving.
//
// No wake-up is lost: whoever goes to sleep first says so (sleepers_, caller_asleep) and has the
// kernel compare the word once more; whoever changes the word looks for sleepers afterwards.
#include "src/cpu/thread_pool.hpp"

#include <algorithm>
#include <climits>
#include <map>
#include <mutex>

#include "src/core/fault.hpp"
#include "src/core/text.hpp"
#include "src/cpu/device.hpp"

namespace rapt {
namespace {

// The bits of the gate above the count of workers inside.
constexpr std::uint32_t open = 1U << 31, caller_asleep = 1U << 30;

std::mutex pools_mutex;
Word forks = 0;  // between the first process and this one

// Registered when the library is loaded: later would leave a moment in which another thread's fork
// goes unseen. The mutex is held across a fork, so that no child inherits half a pool.
const int watching_forks = pthread_atfork([] { pools_mutex.lock(); }, [] { pools_mutex.unlock(); },
                                          [] {
                                            ++forks;
                                            pools_mutex.unlock();
                                          });

}  // namespace

ThreadPool::ThreadPool(std::int32_t threads) : threads_(threads), owner_(2 * forks) {
  if (watching_forks != 0)
    throw Error(ErrorCode::out_of_memory, "the system has no memory to watch for forks");
  workers_.reserve(static_cast<std::size_t>(threads - 1));
  start_workers();
  const std::size_t given = workers_.size() + 1;
  if (given == static_cast<std::size_t>(threads)) return;
  stop_workers();
  throw Error(ErrorCode::out_of_memory,
              text("the system gives ", given, " of ", threads,
                   " threads; ask for fewer, in code or with RAPT_THREADS"));
}

ThreadPool::~ThreadPool() {
  if (owner_ / 2 == forks) stop_workers();
}

void ThreadPool::start_workers() {
  generation_ = sleepers_ = gate_ = 0;
  spins_ = threads_ <= available_processors();
  workers_.clear();
  const auto entry = [](void* pool) -> void* {
    static_cast<ThreadPool*>(pool)->work();
    return nullptr;
  };
  for (std::int32_t i = 1; i < threads_; ++i) {
    pthread_t worker;
    if (pthread_create(&worker, nullptr, entry, this) != 0) return;
    workers_.push_back(worker);
  }
}

void ThreadPool::stop_workers() {
  stopping_ = true;
  ++generation_;
  wake(generation_, INT_MAX);
  for (const pthread_t worker : workers_) pthread_join(worker, nullptr);
}

void ThreadPool::work() {
  std::uint32_t seen = 0;  // a generation
  while (true) {
    wait_for_job(seen);
    seen = generation_.load(std::memory_order_acquire);
    if (enter()) {
      take_part();
      leave();
    } else if (stopping_) {
      return;
    }
  }
}

void ThreadPool::wait_for_job(std::uint32_t seen) {
  const auto there = [&] { return generation_.load(std::memory_order_acquire) != seen; };
  if (spins_ && comes_soon(there)) return;
  while (!there()) {
    ++sleepers_;
    sleep_while(generation_, seen);
    --sleepers_;
  }
}

bool ThreadPool::enter() {
  std::uint32_t gate = gate_.load(std::memory_order_relaxed);
  while (gate & open) {
    if (gate_.compare_exchange_weak(gate, gate + 1, std::memory_order_acquire,
                                    std::memory_order_relaxed))
      return true;
  }
  return false;
}

void ThreadPool::take_part() noexcept {
  const auto take = [&] { return next_.fetch_add(1, std::memory_order_relaxed); };
  for (std::int64_t index = take(); index < count_; index = take()) body_(context_, index);
}

void ThreadPool::leave() {
  if (gate_.fetch_sub(1, std::memory_order_release) == (caller_asleep | 1)) wake(gate_, 1);
}

// Whether the pool was idle, and is the caller's now. What another process left is stale, busy or
// not.
bool ThreadPool::take_over() {
  const std::uint32_t busy = 2 * forks.load(std::memory_order_relaxed) + 1;
  std::uint32_t owner = owner_.load(std::memory_order_relaxed);
  if (owner == busy || !owner_.compare_exchange_strong(owner, busy, std::memory_order_acquire))
    return false;
  if (owner != busy - 1) start_workers();
  return true;
}

// Wakes as many as the job can use besides those awake. Sequentially consistent: a worker that is
// not yet among the sleepers here sees the new generation before it sleeps.
void ThreadPool::call_workers(std::int64_t count) {
  ++generation_;
  const std::int64_t awake = std::int64_t(workers_.size()) - sleepers_;
  const std::int64_t missing = std::min<std::int64_t>(count, threads_) - 1 - awake;
  if (missing > 0) wake(generation_, static_cast<int>(missing));
}

void ThreadPool::close() {
  std::uint32_t inside = gate_.fetch_and(~open, std::memory_order_acquire) & ~open;
  const auto empty = [&] { return gate_.load(std::memory_order_acquire) == 0; };
  if (inside == 0 || (spins_ && comes_soon(empty))) return;
  inside = gate_.fetch_or(caller_asleep, std::memory_order_acquire) | caller_asleep;
  while (inside != caller_asleep) {
    sleep_while(gate_, inside);
    inside = gate_.load(std::memory_order_acquire);
  }
}

void ThreadPool::parallel_for(std::int64_t count, void (*body)(void*, std::int64_t),
                              void* context) {
  // Nested calls, a worker's or the caller's own, find the pool busy: their job is still running.
  if (count <= 1 || threads_ == 1 || !take_over()) {
    for (std::int64_t index = 0; index < count; ++index) body(context, index);
    return;
  }
  body_ = body;
  context_ = context;
  count_ = count;
  next_.store(0, std::memory_order_relaxed);
  gate_.store(open, std::memory_order_release);
  call_workers(count);
  take_part();
  close();
  owner_.store(2 * forks.load(std::memory_order_relaxed), std::memory_order_release);
}

void check_threads(std::int32_t threads) {
  if (threads >= 1 && threads <= most_threads) return;
  fault("the CPU device has ", threads, " threads; 1 to ", most_threads, " are possible");
}

Executor& shared_thread_pool(std::int32_t threads) {
  check_threads(threads);
  const std::lock_guard lock(pools_mutex);
  // Never destroyed: sleeping threads cost nothing, and nobody has to be the last one out.
  static auto& pools = *new std::map<std::int32_t, ThreadPool>;
  return pools.try_emplace(threads, threads).first->second;
}

}  // namespace rapt
