// Arguments for a problem, made from a seed: the same problem, seed and fill give the same bytes
// everywhere.
//
// Only what some query may attend to holds numbers; every other byte (see guarded.hpp) is NaN.
// Outputs are NaN until a kernel writes them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "rapt/rapt.hpp"
#include "src/core/tensors.hpp"
#include "src/semantics/call.hpp"
#include "src/verify/guarded.hpp"

namespace rapt::verify {

enum class Fill {
  hostile,  // random lengths, shuffled pages, and a distribution drawn from the seed: large logits,
            // ties, −inf biases
  typical,  // lengths that add up to the problem's totals, normal numbers from a table: quick to
            // make, for timing
};

// What an operation wrote: by name, each tensor's whole memory, guards included, as
// Guarded::download() gives it.
using Results = std::map<std::string, std::vector<std::byte>>;

class Data {
 public:
  Data(const Problem& problem, const Device& device, std::uint64_t seed, Fill fill);

  const Problem& problem() const { return problem_; }
  Arguments on_host() const;    // for the oracle
  Arguments on_device() const;  // for kernels

  // Other lengths, pages and numbers in the same memory, as another seed makes them.
  void refill(std::uint64_t seed, Fill fill);
  // Wild numbers for starts, lengths and pages; refill() mends them.
  void spoil_indices(std::uint64_t seed);
  void upload();          // everything as it was made: inputs filled, outputs poisoned
  void upload_outputs();  // poisoned again
  // Names the first input that a kernel wrote to, or nothing.
  std::string changed_input() const;
  Results download() const;
  const Guarded& memory(std::string_view tensor) const {
    return tensors_.at(std::string(tensor)).memory;
  }
  std::size_t input_bytes() const;

 private:
  struct Owned {
    const TensorRule* rule;
    Guarded memory;
    Tensor tensor;  // data is null
    bool written;   // by the operation
  };
  friend class Filler;

  void allocate(const Device& device, std::uint64_t seed, Fill fill);
  Arguments arguments(bool host) const;

  Problem problem_;
  std::map<std::string, Owned> tensors_;  // by name
};

// What Problem::of would need beside the arguments to give this problem again.
Options options_of(const Problem& problem);

// The arguments of one sequence alone, as a batch of one.
Arguments one_sequence(const Problem& problem, const Arguments& arguments, std::int64_t sequence);

// One query of a sequence alone, with `keys` keys, of a forward call: neither packed nor, unless
// the keys are paged, with lengths. Paged keys stay as many as they are.
Arguments one_query(const Problem& problem, const Arguments& arguments,
                    const semantics::Sequence& sequence, std::int64_t query, std::int64_t keys);

}  // namespace rapt::verify
