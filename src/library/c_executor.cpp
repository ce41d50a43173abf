#include "src/library/c_executor.hpp"

#include <atomic>
#include <exception>

#include "src/library/c_error.hpp"

namespace rapt::c {
namespace {

struct Work {
  void (*body)(void*, std::int64_t);
  void* context;
  std::int64_t count;
  std::atomic<std::int64_t> calls = 0;
  std::atomic<bool> out_of_range = false, failed = false;
  std::exception_ptr failure = nullptr;  // written by whoever set `failed`

  void run(std::int64_t index) noexcept {
    if (index < 0 || index >= count) {
      out_of_range = true;
      return;
    }
    try {
      body(context, index);
    } catch (...) {
      if (!failed.exchange(true)) failure = std::current_exception();
    }
    ++calls;
  }
};

}  // namespace

void CallbackExecutor::parallel_for(std::int64_t count,
                                    void (*body)(void* context, std::int64_t index),
                                    void* context) {
  Work work{body, context, count};
  callbacks_.parallel_for(
      callbacks_.context, count,
      [](void* work_context, std::int64_t index) { static_cast<Work*>(work_context)->run(index); },
      &work);
  if (work.failure) std::rethrow_exception(work.failure);
  if (work.out_of_range || work.calls != count) {
    fault("executor.parallel_for ran ", work.calls.load(), " of ", count, " indices",
          work.out_of_range ? " and others that do not exist" : "",
          "; it must call body once for each index from 0 to count - 1");
  }
}

}  // namespace rapt::c
