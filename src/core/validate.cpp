// Problem::validate(): the first fault of a problem in one sentence that names the value, the limit
// and the way out.
#include <algorithm>
#include <cmath>

#include "src/core/fault.hpp"
#include "src/core/layout.hpp"
#include "src/core/tensors.hpp"
#include "src/core/validate.hpp"

namespace rapt {
namespace {

// Sizes, positions and bounds stay below this, so that sums of a few of them cannot overflow.
constexpr std::int64_t largest = std::int64_t{1} << 48;

void check_size(std::string_view what, std::int64_t value, std::int64_t least) {
  if (value < least) fault(what, " is ", value, "; it must be ", least, " or more");
  if (value > largest) fault(what, " is ", value, "; rapt's limit is 2^48");
}

void check_sizes(const Problem& p) {
  check_size("batch", p.batch, 0);
  check_size("the number of heads", p.heads, 1);
  check_size("the number of kv heads", p.kv_heads, 1);
  check_size("the query length", p.q_len, 0);
  check_size("the kv length", p.kv_len, 0);
  check_size("the q·k dim", p.qk_dim, 1);
  check_size("the v dim", p.v_dim, 1);
  check_size("the page size", p.page_size, 0);
  if (p.heads % p.kv_heads != 0) {
    fault(p.heads, " heads cannot share ", p.kv_heads,
          " kv heads evenly; heads must be a multiple of kv heads");
  }
  for (const auto& [what, heads, length] :
       {std::tuple{"query", p.heads, p.q_len}, std::tuple{"kv", p.kv_heads, p.kv_len}}) {
    const auto planes = checked_product(p.batch, heads);
    if (!planes || !checked_product(*planes, std::max<std::int64_t>(length, 1))) {
      fault("batch × ", what, " heads × ", what, " length is ", p.batch, " × ", heads, " × ",
            length, ", which overflows 64 bits");
    }
  }
  check_size("the total of queries", p.total_q, 0);
  check_size("the total of keys", p.total_kv, 0);
  if (!p.varlen && checked_product(p.batch, p.q_len) != p.total_q) {
    fault("the total of queries is ", p.total_q,
          ", not batch × query length; only varlen may set it");
  }
  const bool packed_keys = p.varlen && !p.paged();
  const auto most = checked_product(p.batch, p.kv_len);
  if (!p.lengths && !packed_keys && most != p.total_kv) {
    fault("the total of keys is ", p.total_kv,
          ", not batch × kv length; only varlen and kv_lengths may set it");
  }
  if (p.lengths && !packed_keys && (!most || p.total_kv > *most)) {
    fault("kv_lengths are expected to sum to ", p.total_kv, ", more than batch × kv length");
  }
}

void check_bounds(const Problem& p) {
  for (const auto& [side, bound] :
       {std::pair{"left", p.window.left}, std::pair{"right", p.window.right}}) {
    if (bound && *bound < 0) {
      fault("the window's ", side, " bound is ", *bound,
            "; it must be 0 or more, absent for an unbounded side");
    }
    if (bound && *bound > largest)
      fault("the window's ", side, " bound is ", *bound, "; rapt's limit is 2^48");
  }
  check_size("the number of first keys beside the window", p.window.first_keys, 0);
  if (p.window.first_keys > 0 && !p.window.left) {
    fault(p.window.first_keys,
          " first keys stand beside a window without a left bound, which hides none",
          " of them; give one, as in window1024+", p.window.first_keys, ", or leave them out");
  }
  if (p.offset && (*p.offset > largest || *p.offset < -largest)) {
    fault("the offset is ", *p.offset, "; rapt's limit is 2^48 either way");
  }
  if (!std::isfinite(p.scale)) fault("the scale is ", p.scale, "; it must be finite");
  if (!std::isfinite(p.softcap) || p.softcap < 0) {
    fault("the soft cap is ", p.softcap, "; it must be finite and above 0, or 0 for none");
  }
}

void check_dropout(const Problem& p) {
  if (rounded_dropout(p.dropout) != p.dropout)
    fault("the dropout is ", p.dropout, "; a problem has multiples of 1/256");
  if (p.dropout != 0 && p.batch_invariant) {
    fault("a problem with dropout is batch-invariant; which pairs are dropped follows from a ",
          "sequence's place in its batch: leave out one of the two");
  }
}

void check_invariance(const Problem& p) {
  if (!p.row_invariant) return;
  if (!p.batch_invariant)
    fault(
        "a problem is row-invariant and not batch-invariant; the one implies the other: set both");
  if (p.operation == Operation::backward) {
    fault(
        "a problem of backward is batch-invariant:rows; gradients of keys are sums over queries: ",
        "write batch-invariant");
  }
}

void check_strides(std::string_view what, const Shape& shape, const Problem::Strides& strides,
                   std::int64_t bytes) {
  for (const std::int64_t stride : strides) {
    if (stride < 0)
      fault(what, " has a stride of ", stride,
            "; strides must be 0 or more: copy the tensor first");
  }
  if (strides != without_idle_axes(strides, shape)) {
    fault(what, " has a stride on an axis of size 0 or 1; a problem writes 0 there");
  }
  if (!extent(shape, strides, bytes)) {
    fault(what, " spans more bytes than 64-bit indexing reaches: ", shape[0], " × ", shape[1],
          " × ", shape[2], " × ", shape[3], " elements with strides ", strides[0], ", ", strides[1],
          ", ", strides[2]);
  }
}

void check_no_overlap(std::string_view what, const Shape& shape, const Problem::Strides& strides) {
  if (overlaps_itself(shape, strides)) {
    fault(what, " overlaps itself: ", shape[0], " × ", shape[1], " × ", shape[2], " × ", shape[3],
          " elements have strides ", strides[0], ", ", strides[1], ", ", strides[2],
          "; no two results may share memory");
  }
}

void check_broadcasts(const Problem& p, const ScoreTensor& tensor, std::string_view what) {
  const Shape full = {p.batch, p.heads, p.q_len, p.kv_len};
  for (std::size_t axis = 0; axis < 4; ++axis) {
    if (tensor.varies[axis] && full[axis] == 1)
      fault(what, " varies over an axis of size 1; a problem leaves it out");
  }
}

void check_types(const Problem& p) {
  if (p.dtype != DType::f32 && p.dtype != DType::f16 && p.dtype != DType::bf16)
    fault("the element type is ", name(p.dtype), "; it must be f32, f16 or bf16");
  if (p.kv_dtype != p.dtype)
    fault("k and v are ", name(p.kv_dtype), "; they must be ", name(p.dtype),
          " as the queries are");
  if (p.out_dtype != p.dtype && p.out_dtype != DType::f32) {
    fault("out is ", name(p.out_dtype), "; it must be ", name(p.dtype), " as the queries are",
          p.dtype == DType::f32 ? "" : ", or f32");
  }
  if (p.bias.present() && p.bias.dtype != DType::f32 && p.bias.dtype != p.dtype) {
    fault("the bias is ", name(p.bias.dtype), "; it must be f32",
          p.dtype == DType::f32 ? "" : text(" or ", name(p.dtype), " as the queries are"));
  }
  if (p.mask.present() && p.mask.dtype != DType::u8)
    fault("the mask is ", name(p.mask.dtype), "; it must be u8, 1 where a pair may attend");
}

void check_gradients(const Problem& p) {
  if (p.operation == Operation::forward) {
    const bool any = p.dlse || p.dbias.present() || p.dsinks || p.dalibi;
    if (any) fault("gradients are asked for, but the operation is forward: write 'backward'");
    return;
  }
  if (p.paged()) {
    fault("a backward problem has pages of ", p.page_size,
          " keys; gradients belong to keys in one piece: gather them first");
  }
  if (!p.lse) fault("a backward problem has no lse; weights are made from it");
  for (const auto& [name_of, dtype] :
       {std::pair{"dq", p.dq_dtype}, std::pair{"dk", p.dk_dtype}, std::pair{"dv", p.dv_dtype}}) {
    if (dtype != p.dtype && dtype != DType::f32) {
      fault(name_of, " is ", name(dtype), "; it must be ", name(p.dtype), " as the queries are",
            p.dtype == DType::f32 ? "" : ", or f32");
    }
  }
  const auto needs = [](bool wanted, bool there, std::string_view gradient, std::string_view of) {
    if (wanted && !there)
      fault(gradient, " is wanted, but there ", of == "bias" ? "is no " : "are no ", of);
  };
  needs(p.dbias.present(), p.bias.present(), "dbias", "bias");
  needs(p.dsinks, p.sinks, "dsinks", "sinks");
  needs(p.dalibi, p.alibi, "dalibi", "slopes (alibi)");
  if (!p.dbias.present()) return;
  if (p.dbias.varies != p.bias.varies)
    fault(
        "dbias is broadcast over other axes than bias; its sizes must be those of bias, or 1 where "
        "that is broadcast");
  if (p.dbias.dtype != p.bias.dtype && p.dbias.dtype != DType::f32) {
    fault("dbias is ", name(p.dbias.dtype), "; it must be ", name(p.bias.dtype), " as bias is",
          p.bias.dtype == DType::f32 ? "" : ", or f32");
  }
}

}  // namespace

float rounded_dropout(double probability) {
  if (!(probability >= 0 && probability < 1)) {
    fault("the dropout is ", probability,
          "; it must be a probability from 0, for none, to below 1");
  }
  const double steps = std::round(256 * probability);
  if (steps == 256) {
    fault("the dropout is ", probability, ", which rounds to 256/256 and drops every pair; ",
          "the largest is 255/256");
  }
  if (steps == 0 && probability > 0) {
    fault("the dropout is ", probability, ", which rounds to 0/256 and drops nothing; ",
          "the smallest is 1/256, and 0 says none");
  }
  return static_cast<float>(steps / 256);
}

void validate_meaning(const Problem& p) {
  if (p.operation != Operation::forward && p.operation != Operation::backward) {
    fault("the operation is ", static_cast<std::int32_t>(p.operation),
          "; rapt computes forward (0) and backward (1)");
  }
  check_types(p);
  check_gradients(p);
  check_sizes(p);
  check_bounds(p);
  check_dropout(p);
  check_invariance(p);
  if (p.alibi_per_sequence && !p.alibi)
    fault("slopes per sequence are said, but no slopes (alibi)");
}

void validate_layouts(const Problem& p) {
  for (const TensorRule& rule : tensor_rules()) {
    if (rule.pairs && rule.wanted(p)) check_broadcasts(p, p.*rule.pairs, rule.name);
  }
  for (const TensorRule& rule : tensor_rules()) {
    const Problem::Strides* strides = strides_in(p, rule);
    if (!strides || !rule.wanted(p)) continue;
    const Shape shape = shape_of(p, rule);
    check_strides(rule.name, shape, *strides, size_in_bytes(rule.dtype(p)));
    if (rule.written(p.operation)) check_no_overlap(rule.name, shape, *strides);
  }
  const std::int64_t widest = alignment_of_strides(p);
  const std::int64_t least = size_in_bytes(p.dtype);
  if (p.alignment < least || p.alignment > widest || (p.alignment & (p.alignment - 1)) != 0) {
    fault("the alignment is ", p.alignment,
          " bytes; with these strides it must be a power of two from ", least, " to ", widest);
  }
}

void Problem::validate() const {
  validate_meaning(*this);
  validate_layouts(*this);
}

}  // namespace rapt
