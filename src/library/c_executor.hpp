// An Executor that runs on threads lent through the C API.
//
// The callback is the caller's code: an index that is out of range is not passed on, a wrong number
// of calls is reported, and an exception does not travel through C frames.
#pragma once

#include "rapt/rapt.h"
#include "rapt/rapt.hpp"

namespace rapt::c {

class CallbackExecutor final : public Executor {
 public:
  explicit CallbackExecutor(const rapt_executor& callbacks) : callbacks_(callbacks) {}
  std::int32_t concurrency() const override { return callbacks_.concurrency; }
  void parallel_for(std::int64_t count, void (*body)(void* context, std::int64_t index),
                    void* context) override;

 private:
  rapt_executor callbacks_;
};

}  // namespace rapt::c
