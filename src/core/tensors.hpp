// The inventory of tensors. A line for each says what it is called, where it lies in the public
// structs, what operations do with it, and which type, axes and strides a problem gives it.
//
// Matching, validation, alignment, placement, the conversion of C structs, the strides in problem
// strings, the harness's data, poison and guards, and Python's arguments follow from it.
// docs/adding-a-tensor.md tells what a new one takes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "rapt/rapt.h"
#include "rapt/rapt.hpp"
#include "src/core/layout.hpp"

namespace rapt {

// What an operation does with a tensor.
using Use = TensorInfo::Use;

// What an axis of a tensor counts.
enum class Axis : std::uint8_t {
  one,       // nothing: its size is 1
  batch,     // sequences
  starts,    // sequences, and the end of the last
  q_outer,   // sequences; 1 where queries are packed
  query,     // queries of a sequence, or of all packed ones
  kv_outer,  // sequences; 1 where keys are packed; pages of the pool
  key,       // keys of a sequence, or of all packed ones; slots of a page
  q_len,     // queries of the longest sequence
  kv_len,    // keys of the longest sequence
  head,      // query heads
  kv_head,
  qk_dim,
  v_dim,
  table_pages,  // entries of a sequence in the page table
  seed,         // seed and offset
};
inline constexpr std::size_t axis_count = 15;
using Axes = std::array<Axis, 4>;

struct TensorRule {
  std::string_view name;
  Tensor Arguments::*member;
  rapt_tensor rapt_arguments::*c_member;
  TensorInfo::Form form;
  TensorInfo::Part forward, backward;
  bool (*wanted)(const Problem&);  // whether the problem has it
  DType (*dtype)(const Problem&);
  Axes (*axes)(const Problem&);        // the last one that is not `one` is contiguous
  Problem::Strides Problem::*strides;  // as planned; null: read off the arguments of each run
  ScoreTensor Problem::*pairs;         // bias and mask: broadcast axes and strides
  bool is_index_data;                  // starts, lengths, pages: checked where the host can read it

  const TensorInfo::Part& part(Operation operation) const {
    return operation == Operation::backward ? backward : forward;
  }
  bool written(Operation operation) const { return part(operation).use == Use::writes; }
  bool in_layout() const { return form == TensorInfo::Form::rows; }  // bshd or bhsd; aligned
};

// In the order of Arguments.
std::span<const TensorRule> tensor_rules();
const TensorRule& tensor_rule(std::string_view name);

// The sizes of a problem that its tensors share, as planned or as one run has them.
struct Sizes {
  std::int64_t batch, q_len, kv_len, total_q, total_kv;
  std::int64_t pages, table_pages;  // of the pool; of a sequence in the table
};
// A pool's number of pages is not part of a problem.
Sizes planned_sizes(const Problem& problem, std::int64_t pages = many_pages);

// Of each axis.
using AxisSizes = std::array<std::int64_t, axis_count>;
AxisSizes axis_sizes(const Problem& problem, const Sizes& sizes);
inline std::int64_t size_of(const AxisSizes& sizes, Axis axis) {
  return sizes[static_cast<std::size_t>(axis)];
}

Shape shape_of(const Problem& problem, const TensorRule& rule, std::int64_t pages = many_pages);

// Where the problem keeps a tensor's strides, if it does; null: nowhere.
Problem::Strides* strides_in(Problem& problem, const TensorRule& rule);
const Problem::Strides* strides_in(const Problem& problem, const TensorRule& rule);
// Those that a tensor has where nothing else is said.
Problem::Strides dense_strides(const TensorRule& rule, const Shape& shape, Layout layout);

// The name of an axis of a tensor, for messages.
std::string_view axis_name(const Problem& problem, Axis axis);

// The largest power of two up to 16 that divides every stride of rows (q, dq and the like), in
// bytes.
std::int64_t alignment_of_strides(const Problem& problem);

}  // namespace rapt
