// rapt's own threads, behind Executor.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "rapt/rapt.hpp"

namespace rapt {

// One job runs at a time, on the calling thread and the workers. A caller that finds the pool busy,
// or that is itself one of its workers, does its job alone: nothing waits for anything but its own
// work.
class ThreadPool final : public Executor {
 public:
  explicit ThreadPool(std::int32_t threads);
  ~ThreadPool() override;
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  std::int32_t concurrency() const override { return threads_; }
  void parallel_for(std::int64_t count, void (*body)(void*, std::int64_t), void* context) override;

 private:
  struct Job;
  void work();
  void stop();

  const std::int32_t threads_;
  std::atomic<bool> busy_ = false;  // a job runs
  std::mutex mutex_;                // guards what follows
  std::condition_variable wake_, done_;
  Job* job_ = nullptr;
  std::uint64_t generation_ = 0;
  std::int32_t active_ = 0;  // workers inside the job
  bool stopping_ = false;
  std::vector<std::thread> workers_;
};

inline constexpr std::int32_t most_threads = 1024;

// The pool of that many threads (1 to most_threads), made when it is first asked for and kept for
// good.
Executor& shared_thread_pool(std::int32_t threads);

}  // namespace rapt
