// The asynchronous copies of a thread: those under way, and in which groups. What they read is read
// when they begin; it arrives when the thread waits, at the latest possible time.
#pragma once

#include <cstring>
#include <vector>

#include "src/emulator/shared_memory.hpp"

namespace rapt::emulator {

class AsyncCopies {
 public:
  using Data = gpu::Vector<std::uint32_t, 4>;

  void begin(int byte, const Data& data) { copies_.push_back({byte, group_, data}); }
  void commit() { ++group_; }

  void wait_all(SharedMemory& memory, int thread) { end_groups_before(group_ + 1, memory, thread); }
  // Copies that belong to no group yet are not waited for.
  void wait_previous(SharedMemory& memory, int thread) {
    end_groups_before(group_ - 1, memory, thread);
  }

 private:
  struct Copy {
    int byte, group;
    Data data;
  };

  void end_groups_before(int group, SharedMemory& memory, int thread) {
    std::erase_if(copies_, [&](const Copy& copy) {
      if (copy.group >= group) return false;
      memory.end_copy(thread, copy.byte, sizeof(Data));
      std::memcpy(memory.at(copy.byte), &copy.data, sizeof(Data));
      return true;
    });
  }

  std::vector<Copy> copies_;
  int group_ = 0;  // of those to come
};

}  // namespace rapt::emulator
