#include "src/emulator/fibers.hpp"

#include <boost/context/protected_fixedsize_stack.hpp>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#define RAPT_FIBERS_TELL_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define RAPT_FIBERS_TELL_ASAN 1
#endif
#endif
#if defined(RAPT_FIBERS_TELL_ASAN)
#include <sanitizer/common_interface_defs.h>
#endif

namespace rapt::emulator {
namespace {

namespace context = boost::context;

// Address space, mostly: a page takes memory once it was used. Sanitizers make large frames.
constexpr std::size_t stack_bytes = 256 << 10;
// Tops of stacks at the same place of a page would all want the same lines of the cache.
constexpr std::size_t cache_line = 64, lines_of_page = 64, lines_apart = 5;

// AddressSanitizer must know which stack is in use. `left` keeps what it has on the one that is
// left, for when it is in use again; null: never again.
void tell_leaving([[maybe_unused]] void** left, [[maybe_unused]] const void* next_stack,
                  [[maybe_unused]] std::size_t next_bytes) {
#if defined(RAPT_FIBERS_TELL_ASAN)
  __sanitizer_start_switch_fiber(left, next_stack, next_bytes);
#endif
}
void tell_arrived([[maybe_unused]] void* left, [[maybe_unused]] const void** previous_stack,
                  [[maybe_unused]] std::size_t* previous_bytes) {
#if defined(RAPT_FIBERS_TELL_ASAN)
  __sanitizer_finish_switch_fiber(left, previous_stack, previous_bytes);
#endif
}

}  // namespace

Fibers::~Fibers() {
  ending_ = true;
  for (int i = 0; i < static_cast<int>(fibers_.size()) - 1; ++i) switch_to(i);
}

void Fibers::begin(int count, Body body, void* context) {
  body_ = body;
  context_ = context;
  while (static_cast<int>(fibers_.size()) - 1 < count) make_fiber();
}

void Fibers::make_fiber() {
  const auto index = static_cast<int>(fibers_.size()) - 1;
  context::protected_fixedsize_stack allocator(stack_bytes);
  const context::stack_context stack = allocator.allocate();
  const std::size_t shift =
      static_cast<std::size_t>(index) * lines_apart % lines_of_page * cache_line;
  context::fiber place(
      std::allocator_arg,
      context::preallocated(static_cast<std::byte*>(stack.sp) - shift, stack.size - shift, stack),
      allocator,
      [this, index](context::fiber&& previous) { return live(index, std::move(previous)); });
  fibers_.push_back({std::move(place), static_cast<std::byte*>(stack.sp) - stack.size, stack.size});
}

// What a fiber does from the first switch to it on, until the end of all.
context::fiber Fibers::live(int index, context::fiber&& previous) {
  arrive(std::move(previous), nullptr);
  while (!ending_) switch_to(body_(context_, index));
  Fiber& next = fiber(outside);
  previous_ = index;
  running_ = outside;
  tell_leaving(nullptr, next.stack, next.bytes);
  return std::move(next.place);
}

void Fibers::switch_to(int index) {
  Fiber& next = fiber(index);
  previous_ = std::exchange(running_, index);
  void* left = nullptr;
  tell_leaving(&left, next.stack, next.bytes);
  arrive(std::move(next.place).resume(), left);
}

// Somebody switched here: keeps where he goes on.
void Fibers::arrive(context::fiber&& previous, void* left_before) {
  Fiber& who = fiber(previous_);
  tell_arrived(left_before, &who.stack, &who.bytes);
  who.place = std::move(previous);
}

}  // namespace rapt::emulator
