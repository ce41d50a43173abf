#include "cli/interruption.hpp"

#include <pthread.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>
#include <utility>

namespace rapt::cli {
namespace {

struct Actions {
  std::recursive_timed_mutex mutex;
  std::list<std::function<void()>> list;
};

// Never destroyed: the waiting thread outlives main().
Actions& actions() {
  static auto& all = *new Actions;
  return all;
}

[[noreturn]] void wait_for(sigset_t signals) {
  int signal = 0;
  while (sigwait(&signals, &signal) != 0) {
  }
  // Whoever holds the lock for longer hangs in a write to a pipe that nobody reads.
  std::unique_lock lock(actions().mutex, std::chrono::seconds(1));
  if (lock) {
    for (auto action = actions().list.rbegin(); action != actions().list.rend(); ++action) {
      try {
        (*action)();
      } catch (...) {  // the others still have their turn
      }
    }
  }
  // The shell is to see which signal it was.
  std::signal(signal, SIG_DFL);
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  kill(getpid(), signal);
  while (true) pause();
}

}  // namespace

void watch_for_interruption() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction present = {};
    if (sigaction(signal, nullptr, &present) == 0 && present.sa_handler == SIG_DFL)
      sigaddset(&signals, signal);
  }
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread(wait_for, signals).detach();
}

AtInterruption::AtInterruption(std::function<void()> action) {
  const Uninterrupted change;
  place_ = actions().list.insert(actions().list.end(), std::move(action));
}

AtInterruption::~AtInterruption() {
  const Uninterrupted change;
  actions().list.erase(place_);
}

Uninterrupted::Uninterrupted() : lock_(actions().mutex) {}

}  // namespace rapt::cli
