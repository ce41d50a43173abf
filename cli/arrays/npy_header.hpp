// The header of a .npy file: a strict reading of its Python dict literal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rapt::cli {

struct NpyHeader {
  std::string descr;
  bool fortran_order = false;
  std::vector<std::int64_t> shape;  // each 0 or more
};

// Each of the three keys once, nothing else. Throws rapt::Error with `name` in its sentence.
NpyHeader parse_npy_header(std::string_view text, std::string_view name);

}  // namespace rapt::cli
