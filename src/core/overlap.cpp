#include "src/core/overlap.hpp"

#include <algorithm>
#include <array>

#include "src/core/layout.hpp"

namespace rapt {
namespace {

// A byte of both is a solution of
//   a.begin + Σ i · step + x = b.begin + Σ j · step + y,   0 ≤ x < run of a,  0 ≤ y < run of b,
// with an index i or j for each axis. A run is the bytes that follow each other, of a row or of an
// element. So: is there a sum of steps, those of b taken off, between two bounds? Axes of the same
// step are one, since only the difference of their indices counts. The largest step goes first:
// where axes are nested, as they are in any view of a buffer, few of its multiples come near the
// bounds.
class Search {
 public:
  Search(const Tensor& a, const Tensor& b) {
    const std::int64_t run_of_a = add(a, 1), run_of_b = add(b, -1);
    std::sort(steps_.begin(), steps_.begin() + count_,
              [](const Step& x, const Step& y) { return x.bytes > y.bytes; });
    for (std::size_t i = count_; i-- > 0;) {
      least_[i] = least_[i + 1] + steps_[i].least * steps_[i].bytes;
      most_[i] = most_[i + 1] + steps_[i].most * steps_[i].bytes;
    }
    const auto distance = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(b.data) -
                                                    reinterpret_cast<std::uintptr_t>(a.data));
    found_ = reaches(0, distance - run_of_a + 1, distance + run_of_b - 1);
  }
  bool found() const { return found_; }

 private:
  struct Step {
    std::int64_t bytes, least, most;  // how often it is taken
  };

  // Adds a tensor's axes and returns its run.
  std::int64_t add(const Tensor& tensor, int sign) {
    const std::int64_t element = size_in_bytes(tensor.dtype);
    const bool rows = tensor.stride[3] == 1;
    for (std::size_t axis = 0; axis < (rows ? 3 : 4); ++axis) {
      const std::int64_t bytes = tensor.stride[axis] * element, times = tensor.size[axis] - 1;
      if (bytes == 0 || times == 0) continue;
      Step* const end = steps_.data() + count_;
      Step* const step =
          std::find_if(steps_.data(), end, [&](const Step& one) { return one.bytes == bytes; });
      if (step == end) steps_[count_++] = {bytes, 0, 0};
      (sign > 0 ? step->most : step->least) += sign * times;
    }
    return rows ? tensor.size[3] * element : element;
  }

  // Whether a sum of the steps from `first` on lies from `low` to `high`.
  bool reaches(std::size_t first, std::int64_t low, std::int64_t high) {
    if (high < least_[first] || low > most_[first]) return false;
    if (first == count_) return true;  // 0 is the only sum
    if (--patience_ < 0) return true;  // axes that are not nested may take forever
    const Step& step = steps_[first];
    const std::int64_t from = low - most_[first + 1], to = high - least_[first + 1];
    for (std::int64_t times = std::max(step.least, divided_up(from, step.bytes));
         times <= step.most && times * step.bytes <= to; ++times) {
      if (reaches(first + 1, low - times * step.bytes, high - times * step.bytes)) return true;
    }
    return false;
  }
  static std::int64_t divided_up(std::int64_t a, std::int64_t b) {
    return a / b + (a % b > 0 ? 1 : 0);
  }

  std::array<Step, 8> steps_;
  std::size_t count_ = 0;
  std::array<std::int64_t, 9> least_ = {}, most_ = {};  // of the sums from a step on
  int patience_ = 10000;
  bool found_;
};

}  // namespace

bool share_memory(const Tensor& a, const Tensor& b) {
  const Bytes of_a = bytes_of(a), of_b = bytes_of(b);
  if (!of_a.meet(of_b)) return false;
  // Beyond any address space, and beyond what the search can add up.
  constexpr std::uintptr_t too_far = std::uintptr_t{1} << 60;
  if (of_a.end - of_a.begin > too_far || of_b.end - of_b.begin > too_far) return true;
  return Search(a, b).found();
}

bool is_same_memory(const Tensor& a, const Tensor& b) {
  const auto steps = [](const Tensor& tensor) {
    return without_idle_axes({tensor.stride[0], tensor.stride[1], tensor.stride[2]}, tensor.size);
  };
  return a.data == b.data && a.dtype == b.dtype && a.size == b.size && steps(a) == steps(b);
}

}  // namespace rapt
