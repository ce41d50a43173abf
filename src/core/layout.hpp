// Shapes and strides: what strides are when a tensor is dense, how far it reaches, whether it
// overlaps itself.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "rapt/rapt.hpp"

namespace rapt {

enum class Layout { bshd, bhsd };

// Sizes of q, k, v or out: (batch or page, seq or slot, head, dim). A pool's number of pages is not
// part of a problem; `many_pages` stands for it.
using Shape = std::array<std::int64_t, 4>;
inline constexpr std::int64_t many_pages = 2;

// How the axes of a bias or mask are written, in order.
inline constexpr std::string_view score_axis_letters = "bhqk";

bool is_empty(const Shape& shape);  // no elements: some axis has size 0

// Strides in elements; 0 for axes of size 1 and all over an empty tensor, so that equal problems
// compare equal.
Problem::Strides without_idle_axes(Problem::Strides strides, const Shape& shape);
Problem::Strides dense_strides(const Shape& shape, Layout layout);
Problem::Strides dense_row_major(const Shape& shape);  // lse, bias and mask

// Elements from the first to one past the last, or nothing if that overflows 63 bits of bytes.
std::optional<std::int64_t> extent(const Shape& shape, const Problem::Strides& strides,
                                   std::int64_t element_bytes);

// Whether two positions share an element: each axis must step over all that the axes with smaller
// strides cover. The extent must exist.
bool overlaps_itself(const Shape& shape, const Problem::Strides& strides);

// a · b, or nothing if it overflows.
std::optional<std::int64_t> checked_product(std::int64_t a, std::int64_t b);

float default_scale(std::int64_t qk_dim);

}  // namespace rapt
