// Problem::to_string: the text form of a problem, tokens in their canonical order, what is as it
// would be without a token left out. Problem::parse (problem_parse.cpp) is its inverse.
#include <algorithm>

#include "src/core/layout.hpp"
#include "src/core/tensors.hpp"
#include "src/core/text.hpp"

namespace rapt {
namespace {

std::string strides_token(std::string_view name, const Problem::Strides& strides) {
  return text(" ", name, "@", strides[0], ",", strides[1], ",", strides[2]);
}

std::string window_tokens(const Window& window) {
  const bool causal = window.right == 0;
  std::string result = causal ? " causal" : "";
  if (window.left || (window.right && !causal)) {
    result += " window";
    if (window.left) result += number(*window.left);
    if (window.right && !causal) result += text(":", *window.right);
    if (window.first_keys != 0) result += text("+", window.first_keys);
  }
  return result;
}

std::string score_token(std::string_view name, const ScoreTensor& tensor, DType dtype) {
  std::string axes;
  for (std::size_t axis = 0; axis < 4; ++axis) {
    if (tensor.varies[axis]) axes += score_axis_letters[axis];
  }
  const bool typed = name == "bias" && tensor.dtype != dtype;
  return text(" ", name, ":", axes.empty() ? "1" : axes,
              typed ? text(":", rapt::name(tensor.dtype)) : "");
}

std::string storage_tokens(const Problem& p) {
  std::string result;
  const bool packed_keys = p.varlen && !p.paged();
  if (p.varlen) {
    result += " varlen";
    const bool full_q = p.total_q == checked_product(p.batch, p.q_len);
    const bool full_kv = !packed_keys || p.total_kv == checked_product(p.batch, p.kv_len);
    if (!full_q || !full_kv) {
      result += number(p.total_q);
      if (packed_keys && p.total_kv != p.total_q) result += text("/", p.total_kv);
    }
  }
  if (p.lengths) {
    result += " kv_lengths";
    if (!packed_keys && p.total_kv != checked_product(p.batch, p.kv_len))
      result += number(p.total_kv);
  }
  if (p.paged()) result += text(" page", p.page_size);
  return result;
}

// q, k, v and out are dense in one of two layouts, or written out; the layout with fewer of those.
std::string layout_tokens(const Problem& p) {
  const auto strided = [&](bool in_layout, Layout layout) {
    std::string result;
    for (const TensorRule& rule : tensor_rules()) {
      const Problem::Strides* strides = strides_in(p, rule);
      if (!strides || rule.in_layout() != in_layout || !rule.wanted(p)) continue;
      if (*strides != dense_strides(rule, shape_of(p, rule), layout))
        result += strides_token(rule.name, *strides);
    }
    return result;
  };
  const std::string bshd = strided(true, Layout::bshd);
  const std::string bhsd = bshd.empty() ? "" : strided(true, Layout::bhsd);
  const bool other = std::ranges::count(bhsd, '@') < std::ranges::count(bshd, '@');
  return (other ? " bhsd" + bhsd : bshd) + strided(false, Layout::bshd);
}

std::string backward_tokens(const Problem& p) {
  std::string more;
  for (const auto& [name, wanted] : {std::pair{"bias", p.dbias.present()},
                                     std::pair{"sinks", p.dsinks}, std::pair{"alibi", p.dalibi}}) {
    if (wanted) more += text(more.empty() ? ":" : ",", name);
  }
  std::string result = text(" backward", more, p.dlse ? " dlse" : "");
  for (const auto& [name, dtype, otherwise] :
       {std::tuple{"dq", p.dq_dtype, p.dtype}, std::tuple{"dk", p.dk_dtype, p.dtype},
        std::tuple{"dv", p.dv_dtype, p.dtype}, std::tuple{"dbias", p.dbias.dtype, p.bias.dtype}}) {
    if (dtype != DType::none && dtype != otherwise)
      result += text(" ", name, ":", rapt::name(dtype));
  }
  return result;
}

}  // namespace

std::string Problem::to_string() const {
  const Problem& p = *this;
  std::string result = text("b", p.batch, " h", p.heads);
  if (p.kv_heads != p.heads) result += text("/", p.kv_heads);
  result += p.q_len == p.kv_len ? text(" s", p.q_len) : text(" q", p.q_len, " kv", p.kv_len);
  result += text(" d", p.qk_dim);
  if (p.v_dim != p.qk_dim) result += text("/", p.v_dim);
  result += text(" ", name(p.dtype));
  if (p.kv_dtype != p.dtype) result += text(" kv:", name(p.kv_dtype));
  if (p.out_dtype != p.dtype) result += text(" out:", name(p.out_dtype));
  result += window_tokens(p.window);
  if (p.offset) result += text(" offset", *p.offset);
  if (p.bias.present()) result += score_token("bias", p.bias, p.dtype);
  if (p.mask.present()) result += score_token("mask", p.mask, p.dtype);
  if (p.alibi) result += p.alibi_per_sequence ? " alibi:b" : " alibi";
  if (p.softcap != 0) result += text(" softcap", p.softcap);
  if (p.sinks) result += " sinks";
  if (p.dropout != 0) result += text(" dropout", p.dropout);
  result += storage_tokens(p) + layout_tokens(p);
  if (p.scale != default_scale(p.qk_dim)) result += text(" scale", p.scale);
  if (p.lse && p.operation == Operation::forward) result += " lse";
  if (p.operation == Operation::backward) result += backward_tokens(p);
  if (p.alignment != alignment_of_strides(p)) result += text(" align", p.alignment);
  if (p.batch_invariant) result += p.row_invariant ? " batch-invariant:rows" : " batch-invariant";
  if (p.tf32) result += " tf32";
  return result;
}

}  // namespace rapt
