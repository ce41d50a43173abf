// Problem::to_string: the text form of a problem, tokens in their canonical order, what is as it
// would be without a token left out. Problem::parse (problem_parse.cpp) is its inverse.
#include <algorithm>

#include "src/core/layout.hpp"
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
    result += " lengths";
    if (!packed_keys && p.total_kv != checked_product(p.batch, p.kv_len))
      result += number(p.total_kv);
  }
  if (p.paged()) result += text(" page", p.page_size);
  return result;
}

std::string layout_tokens(const Problem& p) {
  const auto strided = [&](Layout layout) {
    std::string result = layout == Layout::bhsd ? " bhsd" : "";
    if (p.q != dense_strides(q_shape(p), layout)) result += strides_token("q", p.q);
    if (p.k != dense_strides(k_shape(p), layout)) result += strides_token("k", p.k);
    if (p.v != dense_strides(v_shape(p), layout)) result += strides_token("v", p.v);
    if (p.out != dense_strides(out_shape(p), layout)) result += strides_token("out", p.out);
    return result;
  };
  const std::string bshd = strided(Layout::bshd), bhsd = strided(Layout::bhsd);
  std::string result = std::ranges::count(bhsd, '@') < std::ranges::count(bshd, '@') ? bhsd : bshd;
  if (p.lse && p.lse_stride != dense_row_major(lse_shape(p)))
    result += strides_token("lse", p.lse_stride);
  for (const auto& [tensor, name] : {std::pair{&p.bias, "bias"}, std::pair{&p.mask, "mask"}}) {
    if (tensor->present() && tensor->stride != dense_row_major(score_shape(p, *tensor))) {
      result += strides_token(name, tensor->stride);
    }
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
  result += text(" ", name(p.dtype), window_tokens(p.window));
  if (p.offset) result += text(" offset", *p.offset);
  if (p.bias.present()) result += score_token("bias", p.bias, p.dtype);
  if (p.mask.present()) result += score_token("mask", p.mask, p.dtype);
  if (p.alibi) result += " alibi";
  if (p.softcap != 0) result += text(" softcap", p.softcap);
  if (p.sinks) result += " sink";
  result += storage_tokens(p) + layout_tokens(p);
  if (p.scale != default_scale(p.qk_dim)) result += text(" scale", p.scale);
  if (p.lse) result += " lse";
  if (p.alignment != alignment_of_strides(p)) result += text(" align", p.alignment);
  if (p.batch_invariant) result += " batch-invariant";
  if (p.tf32) result += " tf32";
  return result;
}

}  // namespace rapt
