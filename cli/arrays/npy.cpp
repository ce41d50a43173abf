// The bytes of a .npy file: magic, version, the length of a header, a Python dict literal with
// 'descr', 'fortran_order' and 'shape', then the elements.
#include "cli/arrays/npy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>

#include "cli/arrays/input_file.hpp"
#include "cli/arrays/npy_header.hpp"

namespace rapt::cli {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are copied as they are");

constexpr std::string_view magic = "\x93NUMPY";

[[noreturn]] void fault(std::string_view name, const std::string& what) {
  throw Error(ErrorCode::invalid_argument, fmt::format("{} {}", name, what));
}

struct Parts {
  std::string_view header;
  std::span<const std::byte> data;
};

std::string_view characters(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Parts split(std::span<const std::byte> file, std::string_view name) {
  const std::string_view text = characters(file);
  if (text.empty()) fault(name, "is empty; a .npy file is wanted (numpy.save writes one)");
  if (text.starts_with("PK")) {
    fault(name, "is a .npz archive; save each array with numpy.save instead");
  }
  if (!text.starts_with(magic)) {
    fault(name, "is not a .npy file: it does not begin with \\x93NUMPY (numpy.save writes one)");
  }
  const auto byte_at = [&](std::size_t index) -> std::size_t {
    return std::to_integer<std::size_t>(file[index]);
  };
  const std::size_t version_end = magic.size() + 2;
  if (text.size() < version_end) fault(name, "is truncated: it ends inside its version number");
  const std::size_t major = byte_at(magic.size()), minor = byte_at(magic.size() + 1);
  if (major < 1 || major > 3 || minor != 0) {
    fault(name, fmt::format("has .npy format {}.{}; rapt reads 1.0, 2.0 and 3.0", major, minor));
  }
  const std::size_t length_bytes = major == 1 ? 2 : 4, header_begin = version_end + length_bytes;
  if (text.size() < header_begin) fault(name, "is truncated: it ends inside its header's length");
  std::size_t length = 0;
  for (std::size_t i = 0; i < length_bytes; ++i) length |= byte_at(version_end + i) << (8 * i);
  if (text.size() - header_begin < length) {
    fault(name, fmt::format("is truncated: its header has {} bytes, of which {} are there", length,
                            text.size() - header_begin));
  }
  return {text.substr(header_begin, length), file.subspan(header_begin + length)};
}

DType element_type(std::string_view descr, std::string_view name) {
  if (descr == "<f4") return DType::f32;
  if (descr == "<f2") return DType::f16;
  if (descr == "|b1" || descr == "|u1") return DType::u8;
  if (descr == "<f8") {
    fault(name,
          "holds float64 ('<f8'); rapt takes f32 and f16: convert it with "
          ".astype('float32')");
  }
  if (descr.starts_with('>')) {
    fault(name, fmt::format("is big endian ('{}'); convert it with .astype('<{}')", descr,
                            descr.substr(1)));
  }
  if (descr == "<V2" || descr == "|V2") {
    fault(name, fmt::format("holds two-byte records ('{}'), as bfloat16 arrays are saved; save "
                            ".astype('float32') and give --dtype bf16",
                            descr));
  }
  fault(name, fmt::format("holds elements of type '{}'; rapt takes float32 ('<f4') and float16 "
                          "('<f2'), and bool or uint8 for masks: convert it with .astype",
                          descr));
}

// Bytes of all elements. The product includes axes of size 0 as 1, so that no sub-array overflows.
std::size_t data_bytes(const NpyHeader& header, DType dtype, std::string_view name) {
  std::int64_t bytes = size_in_bytes(dtype);
  for (const std::int64_t size : header.shape) {
    if (__builtin_mul_overflow(bytes, std::max<std::int64_t>(size, 1), &bytes)) {
      fault(name, fmt::format("has shape {}, whose size in bytes overflows 64 bits",
                              shape_text(header.shape)));
    }
  }
  return std::ranges::count(header.shape, 0) > 0 ? 0 : static_cast<std::size_t>(bytes);
}

// Column-major elements into row-major order.
std::vector<std::byte> reordered(std::span<const std::byte> source,
                                 std::span<const std::int64_t> shape, std::size_t element_bytes) {
  std::vector<std::byte> result(source.size());
  std::vector<std::int64_t> index(shape.size(), 0);  // of the element at `target`
  for (std::size_t target = 0; target < result.size(); target += element_bytes) {
    std::int64_t offset = 0;
    for (std::size_t axis = shape.size(); axis-- > 0;) offset = offset * shape[axis] + index[axis];
    std::memcpy(&result[target], &source[static_cast<std::size_t>(offset) * element_bytes],
                element_bytes);
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      if (++index[axis] < shape[axis]) break;
      index[axis] = 0;
    }
  }
  return result;
}

}  // namespace

std::string shape_text(std::span<const std::int64_t> shape) {
  return fmt::format("({}{})", fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
}

Array parse_npy(std::span<const std::byte> file, std::string_view name) {
  const Parts parts = split(file, name);
  const NpyHeader header = parse_npy_header(parts.header, name);
  Array array{element_type(header.descr, name), header.shape, {}};
  const std::size_t wanted = data_bytes(header, array.dtype, name);
  if (parts.data.size() < wanted) {
    fault(name, fmt::format("is truncated: its shape {} needs {} bytes of data, of which {} are "
                            "there",
                            shape_text(array.shape), wanted, parts.data.size()));
  }
  if (parts.data.size() > wanted) {
    fault(name, fmt::format("has {} bytes after the data of its shape {}; it is corrupt, or holds "
                            "more than one array",
                            parts.data.size() - wanted, shape_text(array.shape)));
  }
  array.data =
      header.fortran_order
          ? reordered(parts.data, array.shape, static_cast<std::size_t>(size_in_bytes(array.dtype)))
          : std::vector<std::byte>(parts.data.begin(), parts.data.end());
  return array;
}

std::string npy_header(DType dtype, std::span<const std::int64_t> shape) {
  const std::string_view descr = dtype == DType::f32 ? "<f4" : dtype == DType::f16 ? "<f2" : "|u1";
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}",
                                   descr, shape_text(shape));
  // Format 1.0: the data begins at a multiple of 64 bytes, after a newline.
  constexpr std::size_t prefix = magic.size() + 4, alignment = 64;
  const std::size_t unpadded = prefix + header.size() + 1;
  header.append((alignment - unpadded % alignment) % alignment, ' ').push_back('\n');
  std::string result(magic);
  result += {'\x01', '\x00', static_cast<char>(header.size() & 0xFF),
             static_cast<char>(header.size() >> 8)};
  return result + header;
}

Array read_npy(const std::string& path) {
  return parse_npy(read_file(path), std::string(name_of_input(path)));
}

}  // namespace rapt::cli
