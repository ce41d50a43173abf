// Memory of rapt's own that any library can take over through DLPack, for libraries whose arrays
// cannot be written to once they exist.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "python/module/array.hpp"

namespace rapt_python {

class Memory {
 public:
  Memory(const std::string& device, std::vector<std::int64_t> shape, const std::string& dtype);

  // A capsule that owns a share of the memory. The work on it has ended when this returns.
  nb::object capsule(bool versioned) const;
  dlpack::Device device() const;

 private:
  struct Block;
  std::shared_ptr<Block> block_;
};

}  // namespace rapt_python
