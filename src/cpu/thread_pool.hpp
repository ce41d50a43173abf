// rapt's own threads, behind Executor: workers that spin for some microseconds after a job, so that
// the next one finds them awake, and then sleep.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <vector>

#include "rapt/rapt.hpp"
#include "src/cpu/waiting.hpp"

namespace rapt {

// One job runs at a time, on the calling thread and whichever workers come before it is done. A
// caller that finds the pool busy, or that is itself one of its workers, does its job alone:
// nothing waits for anything but its own work.
//
// In a process that was forked the workers are gone: its first job starts new ones, as many as the
// system gives. A child that is forked inside a job's body must not return from that body.
class ThreadPool final : public Executor {
 public:
  explicit ThreadPool(std::int32_t threads);
  ~ThreadPool() override;
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  std::int32_t concurrency() const override { return threads_; }
  void parallel_for(std::int64_t count, void (*body)(void*, std::int64_t), void* context) override;

 private:
  static constexpr std::size_t cache_line = 64;

  void start_workers();
  void stop_workers();
  void work();
  void wait_for_job(std::uint32_t seen);
  bool enter();
  void take_part() noexcept;
  void leave();
  bool take_over();
  void call_workers(std::int64_t count);
  void close();

  const std::int32_t threads_;
  bool spins_ = false;  // not where the threads outnumber the processors
  std::vector<pthread_t> workers_;
  std::atomic<bool> stopping_ = false;
  Word owner_;  // twice the number of forks that made its process, + 1: busy

  // What workers wait for, and the job they find: all written by the caller before it opens.
  alignas(cache_line) Word generation_ = 0;  // counts jobs
  Word sleepers_ = 0;                        // workers asleep, or nearly so
  void (*body_)(void*, std::int64_t) = nullptr;
  void* context_ = nullptr;
  std::int64_t count_ = 0;

  // What all write while the job runs.
  alignas(cache_line) Word gate_ = 0;   // open, caller asleep, workers inside
  std::atomic<std::int64_t> next_ = 0;  // the first index nobody took
};

inline constexpr std::int32_t most_threads = 1024;
void check_threads(std::int32_t threads);  // throws Error unless they are 1 to most_threads

// The pool of that many threads (1 to most_threads), made when it is first asked for and kept for
// good.
Executor& shared_thread_pool(std::int32_t threads);

}  // namespace rapt
