#include "src/emulator/shared_memory.hpp"

#include <cstring>

#include "rapt/rapt.hpp"
#include "src/core/text.hpp"

namespace rapt::emulator {

void SharedMemory::begin_block(int bytes, int wave_size) {
  bytes_ = bytes;
  wave_size_ = wave_size;
  std::memset(memory_.data(), 0xff, static_cast<std::size_t>(bytes));
  if (any_copies_) end_all_copies();
  block_barrier();  // what the last block did cannot race with this one
}

void SharedMemory::block_barrier() {
  if (now_ / one_barrier >= most_barriers / 2) forget_everything();
  now_ += one_barrier;
  block_start_ = now_;
  wave_start_.fill(now_);
}

void SharedMemory::wave_barrier(int wave) {
  if (now_ / one_barrier == most_barriers) {
    throw Error(ErrorCode::device_failure,
                text("the emulator counts ", most_barriers / 2,
                     " wave barriers of a block between two block barriers; a kernel has more"));
  }
  now_ += one_barrier;
  wave_start_[wave] = now_;
}

void SharedMemory::forget_everything() {
  for (Stamps* stamps : {&read_, &other_read_, &many_read_}) stamps->fill(0);
  for (Stamp& stamp : written_) stamp = stamp >= under_way ? stamp : 0;
  now_ = 0;
}

int SharedMemory::begin_copy(int thread, int byte, int count) {
  const int other = note_write(thread, byte, count);
  if (other != nobody) return other;
  for (int i = byte / granule; i < (byte + count) / granule; ++i) written_[i] = under_way | thread;
  any_copies_ = true;
  return nobody;
}

void SharedMemory::end_copy(int thread, int byte, int count) {
  for (int i = byte / granule; i < (byte + count) / granule; ++i) written_[i] = stamp(thread);
}

bool SharedMemory::is_copied_to(int byte, int count) const {
  for (int i = byte / granule; i < (byte + count) / granule; ++i) {
    if (written_[i] >= under_way) return true;
  }
  return false;
}

// Of a block that has ended.
void SharedMemory::end_all_copies() {
  for (Stamp& stamp : written_) stamp = stamp >= under_way ? 0 : stamp;
  any_copies_ = false;
}

bool SharedMemory::races(Stamp promoted, int thread) const {
  if (promoted >= under_way) return true;
  if (promoted < block_start_ || thread_of(promoted) == thread) return false;
  const int wave = thread / wave_size_;
  return wave_of(promoted) != wave || promoted >= wave_start_[wave];
}

int SharedMemory::note_news_of_read(int thread, int first, int end) {
  const int wave = thread / wave_size_;
  for (int i = first; i < end; ++i) {
    if (races(written_[i], thread)) return thread_of(written_[i]);
    if (many_read_[i] == read_by_waves() || many_read_[i] == read_by_wave(wave)) continue;
    const Stamp promoted = read_[i];
    if (promoted >= block_start_ && wave_of(promoted) != wave) {
      other_read_[i] = stamp(thread);
      many_read_[i] = read_by_waves();
    } else if (promoted < wave_start_[wave]) {
      read_[i] = stamp(thread);
    } else if (thread_of(promoted) != thread) {
      other_read_[i] = stamp(thread);
      many_read_[i] = read_by_wave(wave);
    }
  }
  return nobody;
}

int SharedMemory::note_contested_write(int thread, int first, int end) {
  for (int i = first; i < end; ++i) {
    for (const Stamp promoted : {written_[i], read_[i], other_read_[i]}) {
      if (races(promoted, thread)) return thread_of(promoted);
    }
    written_[i] = stamp(thread);
  }
  return nobody;
}

}  // namespace rapt::emulator
