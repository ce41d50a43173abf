// The sentences about faulty accesses.
#include "src/core/text.hpp"
#include "src/emulator/shared_view.hpp"
#include "src/emulator/target.hpp"

namespace rapt::emulator {
namespace {

[[noreturn]] void fail(const std::string& what, Here here, const std::string& rule) {
  const Thread& thread = *current_thread;
  thread.block->fail(text("thread ", thread.index, " ", what, " in ", here.to_string()), rule);
}

}  // namespace

void fail_view(int byte, int bytes, Here here) {
  fail(text("makes a view of ", bytes, " bytes of shared memory from byte ", byte, " on"), here,
       text("the kernel declares ", current_thread->block->memory().bytes(), " bytes"));
}

void fail_index(int at, int elements, int count, Here here) {
  fail(text("touches element ", at, elements > 1 ? text(" to ", at + elements - 1) : "",
            " of shared memory"),
       here, text("the view has ", count, " elements"));
}

void fail_alignment(int byte, int bytes, Here here) {
  fail(text("touches ", bytes, " bytes of shared memory at byte ", byte), here,
       "an access must be aligned to its size");
}

void fail_race(const char* does, int byte, int bytes, int other, Here here) {
  const std::string what =
      text(does, " ", bytes, " bytes of shared memory at byte ", byte, " that ");
  if (current_thread->block->memory().is_copied_to(byte, bytes)) {
    fail(text(what, "an asynchronous copy of thread ", other, " goes to"), here,
         "that thread must wait for its copies first, and others for a barrier after that");
  }
  fail(text(what, "thread ", other, " touched before"), here,
       "there must be a barrier between them where one of the two writes");
}

void fail_partial_barrier(int threads, Here here) {
  fail(text("waits for the first ", threads, " threads of the block"), here,
       text("the emulator has barriers of whole blocks alone, and this one has ",
            current_thread->block->threads(), " threads"));
}

void fail_global(const void* address, int bytes, Here here) {
  fail(text("touches ", bytes, " bytes of global memory at an address that is ",
            reinterpret_cast<std::uintptr_t>(address) % static_cast<unsigned>(bytes),
            " past a multiple of that"),
       here, "an access must be aligned to its size");
}

}  // namespace rapt::emulator
