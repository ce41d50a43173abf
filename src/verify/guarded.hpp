// Memory on a device with guard zones around it, and the host image it is filled from.
//
// Everything starts as bytes of 0xff: NaN in every float type, −1 in i32. What is not filled in
// afterwards (guards, padding between rows, slots nobody may read) stays that way, so that a kernel
// that reads it gives NaN and one that writes it is found out.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "rapt/rapt.hpp"

namespace rapt::verify {

class Guarded {
 public:
  Guarded() = default;
  // `alignment`: of the first byte behind the front guard, and no more than that. Without a back
  // guard the memory ends with the last byte, where AddressSanitizer watches.
  Guarded(const Device& device, std::size_t bytes, std::size_t alignment, bool back_guard);

  std::size_t size() const { return bytes_; }
  std::byte* image() { return image_.data() + front_; }
  const std::byte* image() const { return image_.data() + front_; }
  std::byte* on_device() const { return static_cast<std::byte*>(buffer_.data()) + front_; }

  void upload();                            // image → device, guards included
  std::vector<std::byte> download() const;  // the whole memory, guards included
  std::size_t front() const { return front_; }
  bool unchanged() const;  // device memory is still the image
  bool guards_unchanged() const;
  void clear_image();  // as it was before anything was filled in

 private:
  std::size_t bytes_ = 0, front_ = 0;
  std::vector<std::byte> image_;
  Buffer buffer_;
};

}  // namespace rapt::verify
