#include "src/emulator/block.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "rapt/rapt.hpp"
#include "src/core/text.hpp"

namespace rapt::emulator {

constinit thread_local Thread* current_thread = nullptr;

namespace {

constexpr int most_waves = gpu::most_threads_of_block / least_wave_size;

bool within_wave(Stop stop) {
  return stop != Stop::nowhere && stop != Stop::block_barrier && stop != Stop::end;
}

bool together(const Thread& a, const Thread& b) {
  return a.stop == b.stop && a.here == b.here && a.operation == b.operation;
}

const char* name_of(Stop stop) {
  switch (stop) {
    case Stop::block_barrier: return "block barrier";
    case Stop::wave_barrier: return "wave barrier";
    case Stop::ldmatrix: return "ldmatrix";
    case Stop::mma: return "mma";
    default: return "shuffle";
  }
}

std::string whereabouts(const Thread& thread) {
  if (thread.stop == Stop::end) return text("thread ", thread.index, " has ended");
  return text("thread ", thread.index, " waits at the ", name_of(thread.stop), " of ",
              thread.here.to_string());
}

}  // namespace

void Block::run(const Work& work, Place place, RandomOrder order) {
  work_ = work;
  place_ = place;
  order_ = order;
  memory_.begin_block(work.shared_bytes, work.wave_size);
  threads_.resize(static_cast<std::size_t>(work.threads));
  for (int i = 0; i < work.threads; ++i) {
    threads_[i] = {
        .block = this, .index = i, .lane = i % work.wave_size, .wave = i / work.wave_size};
  }
  fibers_.begin(
      work.threads,
      [](void* self, int index) {
        auto& block = *static_cast<Block*>(self);
        block.run_thread(block.threads_[index]);
        return block.next_of_round();
      },
      this);
  try {
    run_to_end();
  } catch (...) {
    abandon();
    throw;
  }
}

void Block::run_thread(Thread& thread) {
  try {
    if (!abandoned_) work_.run(work_.parameters);
  } catch (const Abandoned&) {
  } catch (...) {
    fault_ = std::current_exception();
  }
  thread.stop = Stop::end;
}

// From one block barrier to the next, wave by wave.
void Block::run_to_end() {
  const int waves = work_.threads / work_.wave_size;
  for (;;) {
    const RandomOrder::Permutation order = order_.draw(most_waves);
    for (int i = 0; i < most_waves; ++i) {
      if (order.at(i) < waves) run_to_block_barrier(order.at(i));
    }
    const auto waiting = std::ranges::find(threads_, Stop::block_barrier, &Thread::stop);
    if (waiting == threads_.end()) return;
    for (Thread& thread : threads_) {
      if (!together(*waiting, thread))
        fail_apart(*waiting, thread, "all threads of a block must reach the same barrier");
    }
    for (Thread& thread : threads_) thread.stop = Stop::nowhere;
    memory_.block_barrier();
  }
}

void Block::run_to_block_barrier(int wave) {
  const int first = wave * work_.wave_size;
  for (;;) {
    run_lanes(first);
    bool waiting = false;
    for (int i = first; i < first + work_.wave_size; ++i) waiting |= within_wave(threads_[i].stop);
    if (!waiting) return;
    finish_wave_operation(first);
  }
}

// Each lane hands over to the next one.
void Block::run_lanes(int first) {
  round_ = {
      .order = order_.draw(work_.wave_size), .first = first, .next = 0, .end = work_.wave_size};
  const int index = next_of_round();
  if (index != Fibers::outside) fibers_.switch_to(index);
  if (fault_) std::rethrow_exception(std::exchange(fault_, nullptr));
}

// The thread to switch to, or the outside at the end of a round.
int Block::next_of_round() {
  while (round_.next < round_.end && !fault_) {
    Thread& thread = threads_[round_.first + round_.order.at(round_.next++)];
    if (thread.stop != Stop::nowhere) continue;
    current_thread = &thread;
    return thread.index;
  }
  return Fibers::outside;
}

void Block::finish_wave_operation(int first) {
  const auto lanes = std::span(threads_).subspan(static_cast<std::size_t>(first),
                                                 static_cast<std::size_t>(work_.wave_size));
  const Thread& waiting = *std::ranges::find_if(lanes, within_wave, &Thread::stop);
  for (const Thread& lane : lanes) {
    if (!together(waiting, lane))
      fail_apart(waiting, lane, "all lanes of a wave must take part in the same operation");
  }
  if (waiting.stop == Stop::wave_barrier)
    memory_.wave_barrier(waiting.wave);
  else if (waiting.operation)
    waiting.operation(lanes);
  else
    exchange_values(first);
  for (Thread& lane : lanes) {
    lane.stop = Stop::nowhere;
    lane.operation = nullptr;
  }
}

void Block::exchange_values(int first) {
  std::array<std::uint64_t, most_wave_size> values;
  for (int lane = 0; lane < work_.wave_size; ++lane) values[lane] = threads_[first + lane].value;
  for (int lane = 0; lane < work_.wave_size; ++lane) {
    Thread& thread = threads_[first + lane];
    const bool by_mask = thread.stop == Stop::shuffle_xor;
    if (by_mask && thread.from != threads_[first].from) {
      fail(text("in the shuffle of ", thread.here.to_string(), " thread ", first, " has the mask ",
                threads_[first].from, " and thread ", thread.index, " has ", thread.from),
           "all lanes of a wave must have the same");
    }
    thread.value = values[by_mask ? lane ^ thread.from : thread.from];
  }
}

// Ends what threads are left.
void Block::abandon() {
  abandoned_ = true;
  round_.next = round_.end;
  for (const Thread& thread : threads_) {
    if (thread.stop != Stop::end) fibers_.switch_to(thread.index);
  }
  abandoned_ = false;
  fault_ = nullptr;
}

void Block::wait(Thread& thread, Stop stop, Here here) {
  thread.stop = stop;
  thread.here = here;
  fibers_.switch_to(next_of_round());
  if (abandoned_) throw Abandoned();
}

std::uint64_t Block::shuffle(Thread& thread, Stop stop, std::uint64_t value, int from, Here here) {
  const bool by_mask = stop == Stop::shuffle_xor;
  const int end = by_mask ? least_wave_size : work_.wave_size;
  if (from < 0 || from >= end) {
    fail(text("thread ", thread.index, " shuffles with the ", by_mask ? "mask " : "lane ", from,
              " in ", here.to_string()),
         text("it must be from 0 to ", end - 1));
  }
  thread.value = value;
  thread.from = from;
  wait(thread, stop, here);
  return thread.value;
}

void Block::take_part(Thread& thread, Stop stop, WaveOperation operation, void* operands,
                      Here here) {
  thread.operation = operation;
  thread.operands = operands;
  wait(thread, stop, here);
}

void Block::fail_apart(const Thread& one, const Thread& other, const std::string& rule) const {
  fail(text(whereabouts(one), " and ", whereabouts(other)), rule);
}

void Block::fail(const std::string& what, const std::string& rule) const {
  throw Error(ErrorCode::device_failure, text("a kernel's fault in block (", place_.x, ", ",
                                              place_.y, ", ", place_.z, "): ", what, "; ", rule));
}

}  // namespace rapt::emulator
