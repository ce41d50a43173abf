#include "src/core/layout.hpp"

#include <algorithm>
#include <cmath>

namespace rapt {

bool is_empty(const Shape& shape) { return std::ranges::find(shape, 0) != shape.end(); }

Problem::Strides without_idle_axes(Problem::Strides strides, const Shape& shape) {
  const bool empty = is_empty(shape);
  for (std::size_t axis = 0; axis < strides.size(); ++axis) {
    if (empty || shape[axis] == 1) strides[axis] = 0;
  }
  return strides;
}

namespace {

// Products wrap instead of overflowing: validate() refuses such problems by their extents before
// anyone uses a stride.
std::int64_t wrapping_product(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}

}  // namespace

Problem::Strides dense_strides(const Shape& shape, Layout layout) {
  const auto [outer, rows, heads, dim] = shape;
  const std::int64_t plane = wrapping_product(wrapping_product(rows, heads), dim);
  const Problem::Strides strides = layout == Layout::bshd
                                       ? Problem::Strides{plane, wrapping_product(heads, dim), dim}
                                       : Problem::Strides{plane, dim, wrapping_product(rows, dim)};
  return without_idle_axes(strides, shape);
}

Problem::Strides dense_row_major(const Shape& shape) {
  const std::int64_t inner = wrapping_product(shape[2], shape[3]);
  return without_idle_axes({wrapping_product(shape[1], inner), inner, shape[3]}, shape);
}

std::optional<std::int64_t> checked_product(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) return std::nullopt;
  return result;
}

std::optional<std::int64_t> extent(const Shape& shape, const Problem::Strides& strides,
                                   std::int64_t element_bytes) {
  if (is_empty(shape)) return 0;
  std::int64_t elements = shape[3];
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const auto reach = checked_product(shape[axis] - 1, strides[axis]);
    if (!reach || __builtin_add_overflow(elements, *reach, &elements)) return std::nullopt;
  }
  if (!checked_product(elements, element_bytes)) return std::nullopt;
  return elements;
}

bool overlaps_itself(const Shape& shape, const Problem::Strides& strides) {
  if (is_empty(shape)) return false;
  std::array<std::size_t, 3> order = {0, 1, 2};
  std::ranges::sort(order, {}, [&](std::size_t axis) { return strides[axis]; });
  std::int64_t covered = shape[3];
  for (const std::size_t axis : order) {
    if (shape[axis] <= 1) continue;
    if (strides[axis] < covered) return true;
    covered += (shape[axis] - 1) * strides[axis];
  }
  return false;
}

float default_scale(std::int64_t qk_dim) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(qk_dim)));
}

}  // namespace rapt
