// Whether arguments are those a problem describes, and of which size they are where the problem's
// sizes are bounds.
#pragma once

#include <array>

#include "src/core/tensors.hpp"

namespace rapt {

// What a problem expects of its arguments, worked out once. `problem` must outlive it.
class Matcher {
 public:
  explicit Matcher(const Problem& problem);

  // The sizes of this run. Throws Error at the first tensor that is missing, superfluous, of
  // another type, size or stride, null or misaligned. Allocates nothing when all is well. Looks at
  // no data.
  Sizes match(const Arguments& arguments) const;

  // The first half of match(), for a problem whose layouts nobody has validated: throws Error at
  // the first tensor that is missing, superfluous, of another type or size.
  void require_sizes(const Arguments& arguments) const;

  // Of a run, whose tensors match: throws Error where a result shares memory with another tensor. A
  // problem can be made of tensors that are not there yet.
  void require_memory_of_their_own(const Arguments& arguments) const;

 private:
  struct Expected {
    const TensorRule* rule;
    DType dtype;
    std::uintptr_t alignment;
    Axes axes;
    std::array<std::int64_t, 4> stride;  // any_stride: whatever the arguments have
    bool reach_is_open;  // how far it reaches was not known when the problem was validated

    bool takes(const Tensor& tensor, const AxisSizes& sizes) const;
  };

  bool within_bounds(const Sizes& sizes) const;
  Sizes sizes_of(const Arguments& arguments) const;
  void require_presence(const Arguments& arguments) const;
  void require_bounds(const Arguments& arguments, const Sizes& sizes) const;
  void require_size(const Tensor& tensor, const Expected& expected, const AxisSizes& sizes) const;
  void require_layout(const Tensor& tensor, const Expected& expected, const AxisSizes& sizes) const;

  const Problem& problem_;
  const Sizes planned_;
  std::array<Expected, 32> expected_;
  std::size_t expected_count_ = 0;
  std::array<const TensorRule*, 32> absent_;
  std::size_t absent_count_ = 0;
};

// Once, for arguments that are not run with the same problem again.
inline Sizes match(const Problem& problem, const Arguments& arguments) {
  return Matcher(problem).match(arguments);
}

// Whether a bias or mask is the same all along an axis: by its size, or by a stride of 0.
bool is_broadcast(const Tensor& tensor, std::size_t axis);

}  // namespace rapt
