// Barriers of a block, on the model.
#pragma once

#include "src/cuda/ptx/shared.cuh"

namespace rapt::cuda::ptx {

struct alignas(8) Barrier {
  // Of a phase: threads that arrive, those that have yet to, and bytes that are announced and have
  // not come; the parity of the phase.
  int16_t arrivals, left;
  int32_t bytes_and_parity;

  void initialize(int count) {
    arrivals = left = static_cast<int16_t>(count);
    bytes_and_parity = 0;
  }
  void arrive() { arrive_if(true); }
  void arrive_if(bool condition) {
    if (!condition) return;
    if (arrivals <= 0) model::fail("somebody arrives at a barrier that is not initialized");
    if (left == 0) model::fail("more arrive at a barrier than it was initialized for");
    --left;
    end_phase();
  }
  void arrive_and_expect(uint32_t bytes) {
    bytes_and_parity += static_cast<int32_t>(bytes) * 2;
    arrive();
  }
  // What copies tell it.
  void complete(int bytes) {
    bytes_and_parity -= bytes * 2;
    end_phase();
  }
  void wait(uint32_t phase) {
    if (arrivals <= 0) model::fail("somebody waits at a barrier that is not initialized");
    model::wait_until("an mbarrier", [this, phase] {
      return (bytes_and_parity & 1) != static_cast<int>(phase & 1);
    });
  }

 private:
  void end_phase() {
    if (left > 0 || bytes_and_parity >> 1 != 0) return;
    left = arrivals;
    bytes_and_parity ^= 1;
  }
};

inline void fence_barrier_init() {}
inline void fence_proxy_async() {}

inline void named_barrier_sync(int barrier, int threads) {
  model::arrive_at_named_barrier(barrier, threads, true);
}
inline void named_barrier_arrive(int barrier, int threads) {
  model::arrive_at_named_barrier(barrier, threads, false);
}

}  // namespace rapt::cuda::ptx
