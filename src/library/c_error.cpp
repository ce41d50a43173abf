#include "src/library/c_error.hpp"

#include <algorithm>
#include <new>
#include <string>

namespace rapt::c {
namespace {

thread_local std::string kept_sentence;
thread_local const char* last_error = "";

std::int32_t fail(ErrorCode code, const char* sentence) noexcept {
  try {
    kept_sentence = sentence;
    last_error = kept_sentence.c_str();
  } catch (...) {
    last_error = "there is not even memory for the sentence that says what went wrong";
  }
  return static_cast<std::int32_t>(code);
}

// Where to cut text to at most `length` bytes without splitting a UTF-8 character.
std::size_t cut(std::string_view text, std::size_t length) {
  if (length >= text.size()) return text.size();
  while (length > 0 && (static_cast<unsigned char>(text[length]) & 0xC0) == 0x80) --length;
  return length;
}

}  // namespace

std::int32_t status_of_current_exception() noexcept {
  try {
    throw;
  } catch (const Error& error) {
    return fail(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::out_of_memory, "the host has no memory left");
  } catch (const std::exception& error) {
    return fail(ErrorCode::internal, error.what());
  } catch (...) {
    return fail(ErrorCode::internal, "something that is not an exception was thrown");
  }
}

void require(const void* pointer, std::size_t alignment, std::string_view name) {
  if (pointer == nullptr) fault(name, " is null; it is needed");
  if (reinterpret_cast<std::uintptr_t>(pointer) % alignment != 0)
    fault(name, "'s address is not aligned to ", alignment, " bytes, as its type needs");
}

void TextTarget::write(std::string_view text) const {
  if (buffer == nullptr && capacity > 0)
    fault("buffer is null but capacity is ", capacity, "; pass capacity 0 to ask for the size");
  if (needed != nullptr) {
    require(needed, "needed");
    *needed = text.size() + 1;
  }
  if (capacity == 0) return;
  const std::size_t length = cut(text, capacity - 1);
  std::copy_n(text.data(), length, buffer);
  buffer[length] = '\0';
}

}  // namespace rapt::c

const char* rapt_last_error(void) { return rapt::c::last_error; }

const char* rapt_status_name(std::int32_t status) {
  switch (status) {
    case RAPT_OK: return "RAPT_OK";
    case RAPT_ERROR_INVALID_ARGUMENT: return "RAPT_ERROR_INVALID_ARGUMENT";
    case RAPT_ERROR_UNSUPPORTED: return "RAPT_ERROR_UNSUPPORTED";
    case RAPT_ERROR_NOT_FOUND: return "RAPT_ERROR_NOT_FOUND";
    case RAPT_ERROR_OUT_OF_MEMORY: return "RAPT_ERROR_OUT_OF_MEMORY";
    case RAPT_ERROR_DEVICE_FAILURE: return "RAPT_ERROR_DEVICE_FAILURE";
    case RAPT_ERROR_INTERNAL: return "RAPT_ERROR_INTERNAL";
    default: return "unknown";
  }
}
