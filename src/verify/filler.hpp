// Fills the images of a Data with numbers. See data.hpp for what stays NaN.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/semantics/call.hpp"
#include "src/verify/data.hpp"
#include "src/verify/random.hpp"

namespace rapt::verify {

class Filler {
 public:
  Filler(Data& data, std::uint64_t seed, Fill fill);
  void fill();

 private:
  // How the numbers of a hostile case are spread; drawn once per case.
  struct Spread {
    double query = 1, key = 1, value = 1, bias = 2, slope = 1, sink = 2, gradient = 1;
    bool ties = false;          // all numbers are small integers
    bool blocked_bias = false;  // some biases are −inf
    bool strange = false;       // some numbers that rows see are NaN or infinite
  };

  void fill_lengths();
  void fill_pages();
  void fill_heads();
  void fill_seed();
  void fill_queries(const semantics::Call& call);
  void fill_keys(const semantics::Call& call);
  void fill_pairs(const semantics::Call& call);
  void fill_gradients(const semantics::Call& call);
  void put_strange(const semantics::Call& call);
  void fill_row(const char* name, semantics::Index offset, semantics::Index count, double spread);
  void put(const char* name, semantics::Index offset, std::span<const float> numbers);
  std::vector<std::int64_t> draw_lengths(std::int64_t bound, std::int64_t total, bool exact);
  float draw(double spread);

  template <class Element>
  Element* image(const char* name) {
    return reinterpret_cast<Element*>(data_.tensors_.at(name).memory.image());
  }

  Data& data_;
  const Problem& problem_;
  Random random_;
  Fill fill_;
  Spread spread_;
};

}  // namespace rapt::verify
