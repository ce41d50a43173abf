// Replaces operator new in all its forms and, where no sanitizer and no other C library owns it,
// malloc as well.
#include "tests/unit/counting_allocator.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define RAPT_TEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define RAPT_TEST_SANITIZED 1
#endif
#endif

namespace {

std::atomic<std::int64_t> allocations = 0;

void* allocate_or_null(std::size_t bytes, std::size_t alignment) {
  ++allocations;
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  return rounded < bytes ? nullptr : std::aligned_alloc(alignment, rounded ? rounded : alignment);
}

void* allocate(std::size_t bytes, std::size_t alignment) {
  if (void* memory = allocate_or_null(bytes, alignment)) return memory;
  throw std::bad_alloc();
}

constexpr std::size_t usual = __STDCPP_DEFAULT_NEW_ALIGNMENT__;

}  // namespace

std::int64_t rapt::test::allocations_so_far() { return allocations; }

using Bytes = std::size_t;
using Alignment = std::align_val_t;
using NoThrow = const std::nothrow_t&;

void* operator new(Bytes n) { return allocate(n, usual); }
void* operator new[](Bytes n) { return allocate(n, usual); }
void* operator new(Bytes n, Alignment a) { return allocate(n, Bytes(a)); }
void* operator new[](Bytes n, Alignment a) { return allocate(n, Bytes(a)); }
void* operator new(Bytes n, NoThrow) noexcept { return allocate_or_null(n, usual); }
void* operator new[](Bytes n, NoThrow) noexcept { return allocate_or_null(n, usual); }
void* operator new(Bytes n, Alignment a, NoThrow) noexcept { return allocate_or_null(n, Bytes(a)); }
void* operator new[](Bytes n, Alignment a, NoThrow) noexcept {
  return allocate_or_null(n, Bytes(a));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, Bytes) noexcept { std::free(memory); }
void operator delete[](void* memory, Bytes) noexcept { std::free(memory); }
void operator delete(void* memory, Alignment) noexcept { std::free(memory); }
void operator delete[](void* memory, Alignment) noexcept { std::free(memory); }
void operator delete(void* memory, Bytes, Alignment) noexcept { std::free(memory); }
void operator delete[](void* memory, Bytes, Alignment) noexcept { std::free(memory); }
void operator delete(void* memory, NoThrow) noexcept { std::free(memory); }
void operator delete[](void* memory, NoThrow) noexcept { std::free(memory); }
void operator delete(void* memory, Alignment, NoThrow) noexcept { std::free(memory); }
void operator delete[](void* memory, Alignment, NoThrow) noexcept { std::free(memory); }

#if defined(__GLIBC__) && !defined(RAPT_TEST_SANITIZED)
extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* memory, std::size_t bytes);

void* malloc(std::size_t bytes) {
  ++allocations;
  return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) {
  ++allocations;
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, std::size_t bytes) {
  ++allocations;
  return __libc_realloc(memory, bytes);
}
}
#endif
