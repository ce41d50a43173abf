// merge() on any device with random sizes, types, strides and values: where the result lies, empty
// sides, NaN. Memory starts as NaN between guard zones; what is computed is compared with the
// formula in double.
#pragma once

#include <cmath>
#include <limits>
#include <optional>

#include "src/core/text.hpp"
#include "src/verify/guarded.hpp"
#include "src/verify/random.hpp"
#include "tests/unit/support.hpp"

namespace rapt::test {

// A tensor with memory of its own, on a device and on the host.
struct GuardedTensor {
  GuardedTensor(const Device& device, DType dtype, const Shape& shape, const Shape& stride,
                std::size_t alignment)
      : memory(device, bytes_of(dtype, shape, stride), alignment, true),
        tensor{nullptr, dtype, shape, stride} {}

  Tensor on_host() {
    Tensor result = tensor;
    result.data = memory.image();
    return result;
  }
  Tensor on_device() const {
    Tensor result = tensor;
    result.data = memory.on_device();
    return result;
  }
  // Its memory on the device with the elements taken out: what nobody may have written.
  std::vector<std::byte> surroundings(std::vector<std::byte> whole) const {
    Tensor result = tensor;
    result.data = whole.data() + memory.front();
    const auto element = static_cast<std::size_t>(size_in_bytes(tensor.dtype));
    for_each_position(tensor.size, [&](const Shape& at) {
      std::memset(static_cast<std::byte*>(result.data) +
                      static_cast<std::size_t>(index_of(tensor, at)) * element,
                  0, element);
    });
    return whole;
  }
  bool surroundings_unchanged() {
    const auto* begin = memory.image() - memory.front();
    const std::vector<std::byte> now = memory.download();
    return surroundings(now) == surroundings({begin, begin + now.size()});
  }

  verify::Guarded memory;
  Tensor tensor;

 private:
  static std::size_t bytes_of(DType dtype, const Shape& shape, const Shape& stride) {
    const std::int64_t element = size_in_bytes(dtype);
    return static_cast<std::size_t>(
        extent(shape, {stride[0], stride[1], stride[2]}, element).value() * element);
  }
};

class RandomMerge {
 public:
  RandomMerge(const Device& device, std::uint64_t seed)
      : device_(device), random_(seed), first_(partial()), second_(partial()) {
    const std::int64_t where = random_.below(4);
    if (where > 1) separate_.emplace(partial());
    result_ = where == 0 ? &first_ : where == 1 ? &second_ : &*separate_;
    fill();
  }
  RandomMerge(const RandomMerge&) = delete;
  RandomMerge& operator=(const RandomMerge&) = delete;

  void run(const MergeOptions& options = {}) const {
    merge(first_.on_device(), second_.on_device(), result_->on_device(), device_, options);
  }

  // Other values in the same memory, and what becomes of them.
  void fill() {
    for_each_position({shape_[0], shape_[1], shape_[2], 1}, [&](const Shape& at) {
      const double middle = random_.normal() * random_.one_of({1.0, 30.0, 3000.0});
      fill_row(first_, at, middle);
      fill_row(second_, at, middle);
    });
    expected_.clear();
    for_each_position({shape_[0], shape_[1], shape_[2], 1},
                      [&](const Shape& at) { expect_row(at); });
    for (Side* side : {&first_, &second_, result_}) {
      side->out.memory.upload();
      side->lse.memory.upload();
    }
  }

  // What is wrong after a run; empty if nothing is.
  std::string fault() {
    for (Side* side : {&first_, &second_}) {
      if (side != result_ && !(side->out.memory.unchanged() && side->lse.memory.unchanged()))
        return text("an input was changed", described());
    }
    if (!result_->out.surroundings_unchanged() || !result_->lse.surroundings_unchanged())
      return text("something beside the result was written", described());
    const std::vector<std::byte> out_bytes = result_->out.memory.download();
    const std::vector<std::byte> lse_bytes = result_->lse.memory.download();
    Tensor out = result_->out.tensor, lse = result_->lse.tensor;
    out.data = const_cast<std::byte*>(out_bytes.data() + result_->out.memory.front());
    lse.data = const_cast<std::byte*>(lse_bytes.data() + result_->lse.memory.front());
    std::string wrong;
    std::size_t next = 0;
    const auto compare = [&](std::string_view what, const Shape& at, float got) {
      const Expected& expected = expected_.at(next++);
      const bool right = std::isfinite(expected.value)
                             ? std::abs(got - expected.value) <= expected.tolerance
                         : std::isnan(expected.value) ? std::isnan(got)
                                                      : got == float(expected.value);
      if (right || !wrong.empty()) return;
      wrong = text(what, " at ", at[0], ", ", at[1], ", ", at[2], ", ", at[3], " is ", got,
                   "; expected ", expected.value, " ± ", expected.tolerance, described());
    };
    for_each_position({shape_[0], shape_[1], shape_[2], 1}, [&](const Shape& row) {
      compare("lse", row, get(lse, {row[0], row[2], row[1], 0}));
      for (Shape at = row; at[3] < shape_[3]; ++at[3]) compare("out", at, get(out, at));
    });
    return wrong;
  }

 private:
  struct Side {
    GuardedTensor out, lse;
    Partial on_device() const { return {out.on_device(), lse.on_device()}; }
  };
  struct Expected {
    double value, tolerance;
  };

  Side partial() {
    const DType dtype = random_.one_of({DType::f32, DType::f32, DType::f16, DType::bf16});
    const auto [batch, seq, heads, dim] = shape_;
    const std::int64_t row = dim + random_.one_of<std::int64_t>({0, 0, 0, 1, 3, 8, 16});
    const Shape rows = random_.chance(0.5) ? Shape{seq * heads * row, heads * row, row, 1}
                                           : Shape{seq * heads * row, row, seq * row, 1};
    const std::int64_t step = random_.one_of<std::int64_t>({1, 1, 3});
    const Shape sums = random_.chance(0.5) ? Shape{seq * heads * step, seq * step, step, 1}
                                           : Shape{seq * heads * step, step, heads * step, 1};
    const std::size_t element = static_cast<std::size_t>(size_in_bytes(dtype));
    const std::size_t alignment = random_.one_of<std::size_t>({element, 8, 16, 16, 16});
    return {{device_, dtype, shape_, rows, alignment},
            {device_, DType::f32, {batch, heads, seq, 1}, sums, 4}};
  }

  // An empty side's out is NaN: nobody may look at it.
  void fill_row(Side& side, const Shape& at, double middle) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    const bool is_empty = random_.chance(0.1), is_nan = random_.chance(0.02);
    const double spread = random_.one_of({0.0, 1.0, 1.0, 5.0, 100.0});
    const double lse = is_empty ? -infinity
                       : is_nan ? std::nan("")
                                : middle + spread * random_.normal();
    set(side.lse.on_host(), {at[0], at[2], at[1], 0}, float(lse));
    for (Shape element = at; element[3] < shape_[3]; ++element[3])
      set(side.out.on_host(), element, is_empty ? std::nanf("") : float(random_.normal()));
  }

  void expect_row(const Shape& at) {
    const Shape in_lse = {at[0], at[2], at[1], 0};
    const double a = get(first_.lse.on_host(), in_lse), b = get(second_.lse.on_host(), in_lse);
    const bool has_a = a != -infinity_, has_b = b != -infinity_;
    const double largest = std::max(a, b);
    const double sum = (has_a ? std::exp(a - largest) : 0) + (has_b ? std::exp(b - largest) : 0);
    const double lse = has_a || has_b ? largest + std::log(sum) : -infinity_;
    expected_.push_back({lse, f32_bound * std::max(1.0, std::abs(lse))});
    for (Shape element = at; element[3] < shape_[3]; ++element[3]) {
      const double x = has_a ? std::exp(a - lse) * get(first_.out.on_host(), element) : 0;
      const double y = has_b ? std::exp(b - lse) * get(second_.out.on_host(), element) : 0;
      expected_.push_back({x + y, f32_bound * (std::abs(x) + std::abs(y)) + rounding(x + y)});
    }
  }

  // Of one value, to the result's type.
  double rounding(double value) const {
    const DType dtype = result_->out.tensor.dtype;
    const double unit = dtype == DType::f32 ? 0x1p-24 : dtype == DType::f16 ? 0x1p-11 : 0x1p-8;
    const double least = dtype == DType::f16 ? 0x1p-25 : 1e-38;  // where numbers lie no closer
    return unit * std::abs(value) + least;
  }

  std::string described() const {
    const auto side = [&](const char* name, const Side& partial) {
      const Tensor& out = partial.out.tensor;
      return text(", ", name, " ", rapt::name(out.dtype), " with strides ", out.stride[0], " ",
                  out.stride[1], " ", out.stride[2]);
    };
    return text("; sizes ", shape_[0], " ", shape_[1], " ", shape_[2], " ", shape_[3],
                side("first", first_), side("second", second_),
                result_ == &first_    ? ", in place of the first"
                : result_ == &second_ ? ", in place of the second"
                                      : side("result", *result_));
  }

  static constexpr double infinity_ = std::numeric_limits<double>::infinity();
  static constexpr double f32_bound = 4e-6;

  Device device_;
  verify::Random random_;
  Shape shape_ = {
      random_.between(1, 3), random_.one_of<std::int64_t>({1, 2, 5, 17, 40}), random_.between(1, 5),
      random_.one_of<std::int64_t>({1, 2, 3, 7, 8, 12, 24, 64, 65, 128, 200, 256, 300, 520})};
  Side first_, second_;
  std::optional<Side> separate_;
  Side* result_;
  std::vector<Expected> expected_;
};

// What is wrong with merge() in one random case; empty if nothing is.
inline std::string merge_fault(const Device& device, std::uint64_t seed,
                               const MergeOptions& options = {}) {
  RandomMerge one(device, seed);
  one.run(options);
  return one.fault();
}

}  // namespace rapt::test
