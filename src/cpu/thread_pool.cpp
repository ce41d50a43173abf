#include "src/cpu/thread_pool.hpp"

#include <exception>
#include <map>

#include "src/core/fault.hpp"
#include "src/core/text.hpp"

namespace rapt {

struct ThreadPool::Job {
  void (*body)(void*, std::int64_t);
  void* context;
  std::int64_t count;
  std::atomic<std::int64_t> next = 0;

  void take_part() noexcept {
    for (std::int64_t index = next++; index < count; index = next++) body(context, index);
  }
};

ThreadPool::ThreadPool(std::int32_t threads) : threads_(threads) {
  workers_.reserve(static_cast<std::size_t>(threads - 1));
  try {
    for (std::int32_t i = 1; i < threads; ++i) workers_.emplace_back([this] { work(); });
  } catch (const std::exception&) {
    stop();
    throw Error(ErrorCode::out_of_memory,
                text("the system gives ", workers_.size() + 1, " of ", threads,
                     " threads; ask for fewer, in code or with RAPT_THREADS"));
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::work() {
  std::unique_lock lock(mutex_);
  std::uint64_t seen = 0;
  while (true) {
    wake_.wait(lock, [&] { return stopping_ || (job_ != nullptr && generation_ != seen); });
    if (stopping_) return;
    seen = generation_;
    Job* job = job_;
    ++active_;
    lock.unlock();
    job->take_part();
    lock.lock();
    if (--active_ == 0) done_.notify_one();
  }
}

void ThreadPool::parallel_for(std::int64_t count, void (*body)(void*, std::int64_t),
                              void* context) {
  // Nested calls, a worker's or the caller's own, find the pool busy: their job is still running.
  if (count <= 1 || threads_ == 1 || busy_.exchange(true)) {
    for (std::int64_t index = 0; index < count; ++index) body(context, index);
    return;
  }
  Job job{body, context, count};
  {
    const std::lock_guard lock(mutex_);
    job_ = &job;
    ++generation_;
  }
  wake_.notify_all();
  job.take_part();
  {
    std::unique_lock lock(mutex_);
    job_ = nullptr;  // late workers find nothing; those inside finish their index
    done_.wait(lock, [&] { return active_ == 0; });
  }
  busy_ = false;
}

Executor& shared_thread_pool(std::int32_t threads) {
  if (threads < 1 || threads > most_threads) {
    fault("the CPU device has ", threads, " threads; 1 to ", most_threads, " are possible");
  }
  static std::mutex mutex;
  // Never destroyed: sleeping threads cost nothing, and nobody has to be the last one out.
  static auto& pools = *new std::map<std::int32_t, ThreadPool>;
  const std::lock_guard lock(mutex);
  return pools.try_emplace(threads, threads).first->second;
}

}  // namespace rapt
