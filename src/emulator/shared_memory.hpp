// The shared memory of an emulated block, and who touched it when: two accesses by different
// threads with no barrier between them are a race if one of them writes.
//
// Every two bytes have stamps of those accesses that later ones could race with. A stamp is the
// number of barriers so far, and the thread. What is older than the last block barrier cannot race
// with anything, what is older than a wave's last barrier not with the threads of that wave. Where
// an asynchronous copy goes is written from its beginning to its end: whatever touches it
// between races with it, be it the thread that copies.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "src/gpu/target.hpp"

namespace rapt::emulator {

inline constexpr int least_wave_size = 32, most_wave_size = 64;

class SharedMemory {
 public:
  static constexpr int most_bytes = gpu::most_shared_bytes_with_mma;
  static constexpr int granule = 2;  // bytes that have stamps in common
  static constexpr int nobody = -1;

  // A new block's memory holds NaN, whatever type is read.
  void begin_block(int bytes, int wave_size);
  void block_barrier();
  void wave_barrier(int wave);

  int bytes() const { return bytes_; }
  std::byte* at(int byte) { return memory_.data() + byte; }

  // Notes an access to whole granules inside the memory. Returns a thread whose earlier access it
  // races with, or nobody.
  int note_read(int thread, int byte, int count) {
    const int first = byte / granule, end = (byte + count) / granule;
    const Stamp of_waves = read_by_waves(), of_wave = read_by_wave(thread / wave_size_);
    int news = 0;
    for (int i = first; i < end; ++i) {
      const Stamp mark = many_read_[i];
      news |= written_[i] >= block_start_;
      news |= mark != of_waves && mark != of_wave;
    }
    return news ? note_news_of_read(thread, first, end) : nobody;
  }
  int note_write(int thread, int byte, int count) {
    const int first = byte / granule, end = (byte + count) / granule;
    int touched = 0;
    for (int i = first; i < end; ++i) {
      touched |= written_[i] >= block_start_;
      touched |= read_[i] >= block_start_;
    }
    if (touched) return note_contested_write(thread, first, end);
    for (int i = first; i < end; ++i) written_[i] = stamp(thread);
    return nobody;
  }

  // An asynchronous copy to whole granules. begin_copy() returns as note_write() does.
  int begin_copy(int thread, int byte, int count);
  void end_copy(int thread, int byte, int count);
  // Whether a copy goes to some of these bytes, and has not ended.
  bool is_copied_to(int byte, int count) const;

 private:
  using Stamp = std::int32_t;
  static constexpr int thread_bits = 10;
  static constexpr Stamp one_barrier = 1 << thread_bits;
  static constexpr Stamp most_barriers = (1 << (31 - thread_bits)) - 2;
  static constexpr Stamp under_way = (most_barriers + 1) * one_barrier;  // later than all others
  static_assert(one_barrier == gpu::most_threads_of_block);
  using Stamps = std::array<Stamp, most_bytes / granule>;

  Stamp stamp(int thread) const { return now_ | thread; }
  static int thread_of(Stamp stamp) { return stamp & (one_barrier - 1); }
  int wave_of(Stamp stamp) const { return thread_of(stamp) / wave_size_; }
  // Marks that no reader of this wave, or of any, is news before the wave's, or the block's, next
  // barrier. No two of them are the same.
  Stamp read_by_wave(int wave) const { return wave_start_[wave] | wave * wave_size_; }
  Stamp read_by_waves() const { return block_start_ | 1; }

  bool races(Stamp promoted, int thread) const;
  int note_news_of_read(int thread, int first, int end);
  int note_contested_write(int thread, int first, int end);
  void forget_everything();
  void end_all_copies();

  alignas(16) std::array<std::byte, most_bytes> memory_;
  int bytes_ = 0, wave_size_ = least_wave_size;
  // Stamps without a thread: of now, and of the last barriers.
  Stamp now_ = one_barrier, block_start_ = one_barrier;
  std::array<Stamp, gpu::most_threads_of_block / least_wave_size> wave_start_ = {};
  // The last write and two reads. Whatever write races with some read since the last block barrier
  // races with one of the two: they are of two waves if two have read, else of two threads since
  // the wave's last barrier if two have read.
  Stamps written_ = {}, read_ = {}, other_read_ = {};
  Stamps many_read_ = {};    // a mark if there are two such reads
  bool any_copies_ = false;  // since the block began
};

}  // namespace rapt::emulator
