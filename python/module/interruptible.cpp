#include "python/module/interruptible.hpp"

#include <map>
#include <mutex>

namespace rapt_python {
namespace {

constexpr std::chrono::milliseconds between_looks(20);

thread_local Interruptible* current = nullptr;

class Threads final : public rapt::Executor {
 public:
  explicit Threads(rapt::Executor& own) : own_(own) {}
  std::int32_t concurrency() const override { return own_.concurrency(); }

  void parallel_for(std::int64_t count, void (*body)(void*, std::int64_t), void* context) override {
    if (current == nullptr || !current->interrupted()) own_.parallel_for(count, body, context);
  }

  // Workers leave it to the thread that called.
  bool stopped() override {
    if (current == nullptr) return false;
    current->look();
    return current->interrupted();
  }

 private:
  rapt::Executor& own_;
};

}  // namespace

rapt::Executor* interruptible_threads(const rapt::Device& device) {
  if (device.backend != rapt::Backend::cpu) return nullptr;
  static auto& mutex = *new std::mutex;
  static auto& all = *new std::map<std::int32_t, Threads>;
  const std::lock_guard lock(mutex);
  return &all.try_emplace(device.threads, rapt::own_threads(device)).first->second;
}

Interruptible::Interruptible() : next_look_(std::chrono::steady_clock::now() + between_looks) {
  current = this;
}

Interruptible::~Interruptible() { current = nullptr; }

void Interruptible::look() {
  const auto now = std::chrono::steady_clock::now();
  if (interrupted_ || now < next_look_) return;
  next_look_ = now + between_looks;
  const nb::gil_scoped_acquire acquired;
  interrupted_ = PyErr_CheckSignals() != 0;
}

}  // namespace rapt_python
