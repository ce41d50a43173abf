// Any bytes as a .npy file: they are refused with an Error, or they are an array whose data has the
// size its shape says, and which reads back from what rapt would write.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "cli/arrays/npy.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  rapt::cli::Array array;
  try {
    array = rapt::cli::parse_npy(std::as_bytes(std::span(data, size)), "input");
  } catch (const rapt::Error&) {
    return 0;
  }
  std::size_t bytes = static_cast<std::size_t>(rapt::size_in_bytes(array.dtype));
  for (const std::int64_t axis : array.shape) bytes *= static_cast<std::size_t>(axis);
  if (array.data.size() != bytes) std::abort();

  const std::string header = rapt::cli::npy_header(array.dtype, array.shape);
  std::vector<std::byte> written(header.size());
  std::memcpy(written.data(), header.data(), header.size());
  written.insert(written.end(), array.data.begin(), array.data.end());
  const rapt::cli::Array again = rapt::cli::parse_npy(written, "written");
  if (again.dtype != array.dtype || again.shape != array.shape || again.data != array.data)
    std::abort();
  return 0;
}
