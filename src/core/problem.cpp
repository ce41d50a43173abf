// Problem::of(): what arguments and options amount to. Problem::flops() and bytes(): the least work
// that takes.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "src/core/fault.hpp"
#include "src/core/layout.hpp"
#include "src/core/match.hpp"
#include "src/core/tensors.hpp"
#include "src/core/text.hpp"
#include "src/core/validate.hpp"

namespace rapt {
namespace {

void check_sizes(const Tensor& tensor, std::string_view name) {
  for (const std::int64_t size : tensor.size) {
    if (size < 0) fault(name, " has an axis of size ", size, "; sizes are 0 or more");
  }
}

// Gradients are wanted of whoever says what that of out is.
Operation operation_of(const Arguments& arguments) {
  return arguments.dout.present() ? Operation::backward : Operation::forward;
}

void check_presence(const Arguments& arguments) {
  const Operation operation = operation_of(arguments);
  for (const TensorRule& rule : tensor_rules()) {
    const Tensor& tensor = arguments.*rule.member;
    const TensorInfo::Part& part = rule.part(operation);
    if (part.needed && !tensor.present()) {
      fault(rule.name, " is missing; ",
            operation == Operation::forward
                ? "attention needs q, k, v and out"
                : "backward needs q, k, v, out, lse, dout, dq, dk and dv");
    }
    if (part.use == Use::none && tensor.present())
      fault(rule.name, " is given, but it belongs to backward: give dout too, or leave it out");
    if (tensor.present()) check_sizes(tensor, rule.name);
  }
}

Problem::Strides strides_of(const Tensor& tensor) {
  return without_idle_axes({tensor.stride[0], tensor.stride[1], tensor.stride[2]}, tensor.size);
}

// A pool's size is not part of the problem: it may grow without a new plan. A pool of one page has
// no page stride of its own, so it gets the dense one.
Problem::Strides pool_strides(const Tensor& tensor) {
  Shape many = tensor.size;
  many[0] = many_pages;
  Problem::Strides strides =
      without_idle_axes({tensor.stride[0], tensor.stride[1], tensor.stride[2]}, many);
  if (tensor.size[0] <= 1) strides[0] = dense_strides(many, Layout::bshd)[0];
  return strides;
}

ScoreTensor score_tensor(const Problem& p, const Tensor& tensor) {
  ScoreTensor result;
  if (!tensor.present()) return result;
  result.dtype = tensor.dtype;
  const Shape full = {p.batch, p.heads, p.q_len, p.kv_len};
  for (std::size_t axis = 0; axis < 4; ++axis) {
    result.varies[axis] = full[axis] != 1 && !is_broadcast(tensor, axis);
    if (axis < 3 && result.varies[axis]) result.stride[axis] = tensor.stride[axis];
  }
  return result;
}

// [batch, head], not [head]. Slopes of one head in one sequence are both.
bool has_slopes_of_sequences(const Problem& p, const Tensor& alibi) {
  return p.heads > 1 ? alibi.size[1] == p.heads : alibi.size[0] != 1;
}

Window window_of(const Options& options) {
  Window window = options.window;
  if (options.causal && window.right.value_or(0) != 0) {
    fault("causal bounds the window's right side by 0, and window.right is ", *window.right,
          "; give one of them");
  }
  if (options.causal) window.right = 0;
  return window;
}

// Options that would have no effect are mistakes.
void check_options(const Problem& p, const Options& options) {
  const auto superfluous = [](bool given, bool used, std::string_view what,
                              std::string_view where) {
    if (given && !used) fault(what, " is given, but it belongs to ", where);
  };
  superfluous(options.max_q_len.has_value(), p.varlen, "max_q_len", "packed queries (q_starts)");
  superfluous(options.max_kv_len.has_value(), p.varlen || p.paged(), "max_kv_len",
              "packed or paged keys (kv_starts, page_table)");
  superfluous(options.total_kv.has_value(), p.lengths && (!p.varlen || p.paged()), "total_kv",
              "keys with kv_lengths that are not packed");
}

// Batch, lengths, totals and page size.
void read_sizes(const Arguments& a, const Options& options, Problem& p) {
  const std::int64_t overflow = std::numeric_limits<std::int64_t>::max();  // refused by validate()
  p.varlen = a.q_starts.present();
  p.lengths = a.kv_lengths.present();
  if (a.page_table.present()) {
    p.page_size = a.k.size[1];
    if (p.page_size < 1) {
      fault("k's pages hold 0 tokens; a page holds 1 or more");
    }
  }
  check_options(p, options);
  p.batch = p.varlen ? a.q_starts.size[0] - 1 : a.q.size[0];
  p.q_len = options.max_q_len.value_or(a.q.size[1]);
  const auto stored = p.paged() ? checked_product(a.page_table.size[1], p.page_size) : a.k.size[1];
  p.kv_len = options.max_kv_len.value_or(stored.value_or(overflow));
  const bool packed_keys = p.varlen && !p.paged();
  p.total_q = p.varlen ? a.q.size[1] : checked_product(p.batch, p.q_len).value_or(overflow);
  p.total_kv = packed_keys ? a.k.size[1] : checked_product(p.batch, p.kv_len).value_or(overflow);
  p.total_kv = options.total_kv.value_or(p.total_kv);
}

std::int64_t alignment_of(const Arguments& a, const Problem& p) {
  std::uintptr_t bits = static_cast<std::uintptr_t>(alignment_of_strides(p));
  for (const TensorRule& rule : tensor_rules()) {
    if (!rule.in_layout() || !rule.wanted(p)) continue;
    const auto address = reinterpret_cast<std::uintptr_t>((a.*rule.member).data);
    const std::int64_t element = size_in_bytes(rule.dtype(p));
    if (address % static_cast<std::uintptr_t>(element) != 0)
      fault(rule.name, "'s address is not aligned to its element size of ", element, " bytes");
    bits |= address;
  }
  return static_cast<std::int64_t>(bits & (~bits + 1));
}

// The sum over n consecutive integers from `first` of each clamped to [0, top], in closed form.
double sum_of_clamped(double first, double n, double top) {
  const double rising_from = std::clamp(-first, 0.0, n);             // terms before are 0
  const double rising_to = std::clamp(top - first, rising_from, n);  // terms from here on are top
  const double rising = rising_to - rising_from;
  return rising * (first + rising_from) + rising * (rising - 1) / 2 + (n - rising_to) * top;
}

// One sequence of average lengths stands for all: exact when they are equal.
struct AverageSequence {
  double q_len, kv_len, offset;
  explicit AverageSequence(const Problem& p)
      : q_len(static_cast<double>(p.total_q) /
              static_cast<double>(std::max<std::int64_t>(p.batch, 1))),
        kv_len(static_cast<double>(p.total_kv) /
               static_cast<double>(std::max<std::int64_t>(p.batch, 1))),
        offset(p.offset ? static_cast<double>(*p.offset) : kv_len - q_len) {}
};

double visible_pairs(const Problem& p) {
  const AverageSequence s(p);
  const double ends =
      p.window.right ? sum_of_clamped(s.offset + double(*p.window.right) + 1, s.q_len, s.kv_len)
                     : s.q_len * s.kv_len;
  if (!p.window.left) return static_cast<double>(p.batch) * ends;
  // Of the keys before the left bound a query sees the first ones.
  const double bound = s.offset - double(*p.window.left);
  const double begins = sum_of_clamped(bound, s.q_len, s.kv_len);
  const double first =
      sum_of_clamped(bound, s.q_len, std::min(double(p.window.first_keys), s.kv_len));
  return static_cast<double>(p.batch) * std::max(0.0, ends - begins + first);
}

// Keys that some query sees, over all sequences.
double visible_keys(const Problem& p) {
  const AverageSequence s(p);
  if (s.q_len <= 0) return 0;
  const double last = s.offset + s.q_len - 1;
  const double end =
      p.window.right ? std::clamp(last + double(*p.window.right) + 1, 0.0, s.kv_len) : s.kv_len;
  const double begin =
      p.window.left ? std::clamp(s.offset - double(*p.window.left), 0.0, s.kv_len) : 0;
  const double first = std::min(double(p.window.first_keys), begin);
  return static_cast<double>(p.batch) * std::max(0.0, end - begin + first);
}

double bytes_of_pairs(const Problem& p) {
  double all = 0;
  for (const TensorRule& rule : tensor_rules()) {
    if (!rule.pairs || !rule.wanted(p)) continue;
    double bytes = static_cast<double>(size_in_bytes(rule.dtype(p)));
    for (const std::int64_t size : shape_of(p, rule)) bytes *= static_cast<double>(size);
    all += bytes;
  }
  return all;
}

}  // namespace

Problem Problem::of(const Arguments& a, const Options& options) {
  check_presence(a);
  for (const TensorRule& rule : tensor_rules()) {
    const Tensor& tensor = a.*rule.member;
    if (rule.in_layout() && tensor.present() && !size_in_bytes(tensor.dtype)) {
      fault(rule.name, "'s element type is ", static_cast<std::int32_t>(tensor.dtype),
            "; it must be f32, f16 or bf16");
    }
  }
  Problem p;
  p.operation = operation_of(a);
  p.dtype = p.kv_dtype = a.q.dtype;
  p.out_dtype = a.out.dtype;
  p.heads = a.q.size[2];
  p.kv_heads = a.k.size[2];
  p.qk_dim = a.q.size[3];
  p.v_dim = a.v.size[3];
  read_sizes(a, options, p);
  p.window = window_of(options);
  p.offset = options.offset;
  p.scale = options.scale.value_or(p.qk_dim > 0 ? default_scale(p.qk_dim) : 1);
  p.softcap = options.softcap;
  p.dropout = rounded_dropout(options.dropout);
  p.bias = score_tensor(p, a.bias);
  p.mask = score_tensor(p, a.mask);
  p.alibi = a.alibi.present();
  p.alibi_per_sequence = p.alibi && has_slopes_of_sequences(p, a.alibi);
  p.sinks = a.sinks.present();
  p.lse = a.lse.present();
  p.dq_dtype = a.dq.dtype;
  p.dk_dtype = a.dk.dtype;
  p.dv_dtype = a.dv.dtype;
  p.dlse = a.dlse.present();
  p.dbias = score_tensor(p, a.dbias);
  p.dsinks = a.dsinks.present();
  p.dalibi = a.dalibi.present();
  p.batch_invariant = options.batch_invariant || options.row_invariant;
  p.row_invariant = options.row_invariant;
  p.tf32 = options.tf32;
  for (const TensorRule& rule : tensor_rules()) {
    const Tensor& tensor = a.*rule.member;
    if (!rule.wanted(p)) continue;
    const bool pool = p.paged() && rule.axes(p)[0] == Axis::kv_outer;
    if (rule.strides) p.*rule.strides = pool ? pool_strides(tensor) : strides_of(tensor);
    if (rule.pairs) {
      Problem::Strides& strides = (p.*rule.pairs).stride;
      strides = without_idle_axes(strides, shape_of(p, rule));
    }
  }
  validate_meaning(p);
  Matcher(p).require_sizes(a);
  p.alignment = alignment_of(a, p);
  validate_layouts(p);
  match(p, a);
  return p;
}

double Problem::flops() const {
  // Backward: scores and dq and dk; dout · v and dv.
  const double multiplications = operation == Operation::forward
                                     ? double(qk_dim) + double(v_dim)
                                     : 3 * double(qk_dim) + 2 * double(v_dim);
  return 2.0 * multiplications * double(heads) * visible_pairs(*this);
}

double Problem::bytes() const {
  const auto bytes_of = [](DType type, std::int64_t count) {
    return double(size_in_bytes(type)) * double(count);
  };
  double query = bytes_of(dtype, qk_dim) + bytes_of(out_dtype, v_dim) + (lse ? 4.0 : 0.0);
  const double key = bytes_of(kv_dtype, qk_dim) + bytes_of(kv_dtype, v_dim);
  double gradients = 0;
  if (operation == Operation::backward) {
    query += bytes_of(dq_dtype, qk_dim) + bytes_of(out_dtype, v_dim) + (dlse ? 4.0 : 0.0);
    gradients = double(total_kv) * double(kv_heads) *
                (bytes_of(dk_dtype, qk_dim) + bytes_of(dv_dtype, v_dim));
  }
  return double(total_q) * double(heads) * query + visible_keys(*this) * double(kv_heads) * key +
         gradients + bytes_of_pairs(*this);
}

}  // namespace rapt
