#include "src/verify/guarded.hpp"

#include <algorithm>

namespace rapt::verify {

namespace {
constexpr std::size_t guard_bytes = 256;
}

Guarded::Guarded(const Device& device, std::size_t bytes, std::size_t alignment, bool back_guard)
    : bytes_(bytes),
      front_(guard_bytes + alignment),
      image_(front_ + bytes + (back_guard ? guard_bytes : 0), std::byte{0xff}),
      buffer_(device, image_.size()) {}

void Guarded::upload() { buffer_.copy_from_host(image_.data(), image_.size()); }

std::vector<std::byte> Guarded::download() const {
  std::vector<std::byte> memory(image_.size());
  buffer_.copy_to_host(memory.data(), memory.size());
  return memory;
}

bool Guarded::unchanged() const { return download() == image_; }

bool Guarded::guards_unchanged() const {
  std::vector<std::byte> memory = download();
  const auto first = memory.begin() + static_cast<std::ptrdiff_t>(front_);
  memory.erase(first, first + static_cast<std::ptrdiff_t>(bytes_));
  return std::ranges::all_of(memory, [](std::byte byte) { return byte == std::byte{0xff}; });
}

void Guarded::clear_image() { std::ranges::fill(image_, std::byte{0xff}); }

}  // namespace rapt::verify
