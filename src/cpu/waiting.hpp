// How a thread waits for a word of memory to change: it spins for a moment, then sleeps until it is
// woken.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>

namespace rapt {

using Word = std::atomic<std::uint32_t>;
static_assert(sizeof(Word) == 4 && Word::is_always_lock_free, "what a futex is");

// Returns at once if the word has another value, else when it is woken, and now and then for no
// reason.
inline void sleep_while(Word& word, std::uint32_t value) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}

inline void wake(Word& word, int most_sleepers) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, most_sleepers, nullptr, nullptr, 0);
}

inline void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

// Spins until the condition holds, for 50 µs at most: what sleeping and being woken may cost. The
// result says whether it held. A pause takes 10 to 150 cycles, hence the clock.
template <class Condition>
bool comes_soon(const Condition& condition) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + std::chrono::microseconds(50);
  do {
    for (int i = 0; i < 64; ++i) {
      if (condition()) return true;
      pause_briefly();
    }
  } while (Clock::now() < end);
  return false;
}

}  // namespace rapt
