// Shared<T> of the emulator: every access is held against the view's bounds, the kernel's shared
// memory, alignment, and the other threads' accesses.
#pragma once

#include <cstring>

#include "src/emulator/block.hpp"

namespace rapt::emulator {

[[noreturn]] void fail_view(int byte, int bytes, Here here);
[[noreturn]] void fail_index(int at, int elements, int count, Here here);
[[noreturn]] void fail_alignment(int byte, int bytes, Here here);
[[noreturn]] void fail_race(const char* does, int byte, int bytes, int other, Here here);

template <class T>
class Shared {
  static constexpr int element = sizeof(T);
  static_assert(element % SharedMemory::granule == 0, "bytes of their own have no stamps");

 public:
  Shared(const Thread& thread, int byte, int count, Here here)
      : memory_(&thread.block->memory()), thread_(thread.index), byte_(byte), count_(count) {
    if (byte < 0 || count < 0 || byte + Index{count} * element > memory_->bytes())
      fail_view(byte, count * element, here);
    if (byte % element != 0) fail_alignment(byte, element, here);
  }

  T load(int at, Here here = Here::current()) const { return load_as<T>(at, here); }
  void store(int at, T value, Here here = Here::current()) const { store_as(at, value, here); }
  template <int n>
  gpu::Vector<T, n> load_vector(int at, Here here = Here::current()) const {
    return load_as<gpu::Vector<T, n>>(at, here);
  }
  template <int n>
  void store_vector(int at, gpu::Vector<T, n> value, Here here = Here::current()) const {
    store_as(at, value, here);
  }

  // An asynchronous copy to n elements begins: the byte it goes to.
  template <int n>
  int begin_copy(int at, Here here) const {
    const int byte = byte_of<n * element>(at, here);
    const int other = memory_->begin_copy(thread_, byte, n * element);
    if (other != SharedMemory::nobody) [[unlikely]]
      fail_race("copies to", byte, n * element, other, here);
    return byte;
  }

  // Of an access to so many bytes, which must be possible.
  template <int bytes>
  int byte_of(int at, Here here) const {
    if (at < 0 || at > count_ - bytes / element) [[unlikely]]
      fail_index(at, bytes / element, count_, here);
    const int byte = byte_ + at * element;
    if (byte % bytes != 0) [[unlikely]]
      fail_alignment(byte, bytes, here);
    return byte;
  }

 private:
  using Index = gpu::Index;

  template <class Value>
  Value load_as(int at, Here here) const {
    const int byte = byte_of<sizeof(Value)>(at, here);
    const int other = memory_->note_read(thread_, byte, sizeof(Value));
    if (other != SharedMemory::nobody) [[unlikely]]
      fail_race("reads", byte, sizeof(Value), other, here);
    Value value;
    std::memcpy(&value, memory_->at(byte), sizeof(Value));
    return value;
  }
  template <class Value>
  void store_as(int at, const Value& value, Here here) const {
    const int byte = byte_of<sizeof(Value)>(at, here);
    const int other = memory_->note_write(thread_, byte, sizeof(Value));
    if (other != SharedMemory::nobody) [[unlikely]]
      fail_race("writes", byte, sizeof(Value), other, here);
    std::memcpy(memory_->at(byte), &value, sizeof(Value));
  }

  SharedMemory* memory_;
  int thread_, byte_, count_;
};

}  // namespace rapt::emulator
