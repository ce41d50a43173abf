// NumPy's .npy files: one array each, formats 1.0, 2.0 and 3.0, of the element types rapt takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rapt/rapt.hpp"

namespace rapt::cli {

// Row-major, whatever order the file had.
struct Array {
  DType dtype = DType::none;  // f32, f16, or u8 (which also stands for bool)
  std::vector<std::int64_t> shape;
  std::vector<std::byte> data;
};

// "(2, 5, 8)", for people.
std::string shape_text(std::span<const std::int64_t> shape);

// What a whole file holds. `name` is for the sentences of the Errors it throws; any bytes at all
// may be given.
Array parse_npy(std::span<const std::byte> file, std::string_view name);

// The bytes that come before the data of a row-major array. u8 is written as unsigned bytes.
std::string npy_header(DType dtype, std::span<const std::int64_t> shape);

// Throws Error if the file cannot be read or is not what parse_npy takes.
Array read_npy(const std::string& path);

}  // namespace rapt::cli
