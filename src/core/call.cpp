#include "src/core/call.hpp"

#include <algorithm>

#include "src/core/match.hpp"

namespace rapt {
namespace {

semantics::Window plain_window(const Window& window) {
  return {window.left.has_value(), window.right.has_value(), window.left.value_or(0),
          window.right.value_or(0), window.first_keys};
}

void copy_score_strides(const ScoreTensor& tensor, semantics::Index (&stride)[4]) {
  std::ranges::copy(tensor.stride, stride);
  stride[3] = tensor.varies[3] ? 1 : 0;
}

// An absent tensor has no data, whatever its pointer says.
void* data_of(const Tensor& tensor) { return tensor.present() ? tensor.data : nullptr; }

}  // namespace

semantics::Call planned_call(const Problem& p) {
  semantics::Call call = {};
  call.heads = p.heads;
  call.kv_heads = p.kv_heads;
  call.q_len = p.q_len;
  call.kv_len = p.kv_len;
  call.qk_dim = p.qk_dim;
  call.v_dim = p.v_dim;
  call.window = plain_window(p.window);
  call.has_offset = p.offset.has_value();
  call.offset = p.offset.value_or(0);
  call.scale = p.scale;
  call.softcap = p.softcap;
  call.dropout.dropped = static_cast<std::uint32_t>(256 * p.dropout);
  std::ranges::copy(p.q, call.q_stride);
  std::ranges::copy(p.k, call.k_stride);
  std::ranges::copy(p.v, call.v_stride);
  std::ranges::copy(p.out, call.out_stride);
  std::ranges::copy(p.lse_stride, call.lse_stride);
  call.out_is_f32 = p.out_dtype == DType::f32;
  call.bias_is_f32 = p.bias.dtype == DType::f32;
  copy_score_strides(p.bias, call.bias_stride);
  copy_score_strides(p.mask, call.mask_stride);
  call.alibi_stride = p.alibi_per_sequence ? p.heads : 0;  // or as a run has it
  call.page_size = p.page_size;
  return call;
}

semantics::Call make_call(const semantics::Call& planned, const Sizes& sizes, const Arguments& a) {
  semantics::Call call = planned;
  call.batch = sizes.batch;
  call.q_len = sizes.q_len;
  call.kv_len = sizes.kv_len;
  call.total_q = sizes.total_q;
  call.total_kv = sizes.total_kv;
  call.q = a.q.data;
  call.k = a.k.data;
  call.v = a.v.data;
  call.out = a.out.data;
  call.lse = static_cast<float*>(data_of(a.lse));
  call.bias = data_of(a.bias);
  call.mask = static_cast<const std::uint8_t*>(data_of(a.mask));
  call.alibi = static_cast<const float*>(data_of(a.alibi));
  if (call.alibi_stride != 0) call.alibi_stride = a.alibi.stride[0];
  call.sinks = static_cast<const float*>(data_of(a.sinks));
  call.dropout.seed = static_cast<const std::int64_t*>(data_of(a.seed));
  call.q_starts = static_cast<const std::int32_t*>(data_of(a.q_starts));
  call.kv_starts = static_cast<const std::int32_t*>(data_of(a.kv_starts));
  call.kv_lengths = static_cast<const std::int32_t*>(data_of(a.kv_lengths));
  if (call.q_starts) call.q_len = std::min(call.q_len, call.total_q);  // no more than there are
  if (call.page_size > 0) {
    call.page_table = static_cast<const std::int32_t*>(a.page_table.data);
    call.page_table_stride = a.page_table.stride[0];
    call.page_count = sizes.pages;
  }
  return call;
}

semantics::Gradients planned_gradients(const Problem& p) {
  semantics::Gradients g = {};
  std::ranges::copy(p.dout, g.dout_stride);
  std::ranges::copy(p.dlse_stride, g.dlse_stride);
  std::ranges::copy(p.dq, g.dq_stride);
  std::ranges::copy(p.dk, g.dk_stride);
  std::ranges::copy(p.dv, g.dv_stride);
  g.dq_is_f32 = p.dq_dtype == DType::f32;
  g.dk_is_f32 = p.dk_dtype == DType::f32;
  g.dv_is_f32 = p.dv_dtype == DType::f32;
  g.dbias_is_f32 = p.dbias.dtype == DType::f32;
  copy_score_strides(p.dbias, g.dbias_stride);
  g.dalibi_stride = p.alibi_per_sequence ? p.heads : 0;  // or as a run has it
  return g;
}

semantics::Gradients make_gradients(const semantics::Gradients& planned, const Arguments& a) {
  semantics::Gradients g = planned;
  g.dout = a.dout.data;
  g.dlse = static_cast<const float*>(data_of(a.dlse));
  g.dq = a.dq.data;
  g.dk = a.dk.data;
  g.dv = a.dv.data;
  g.dbias = data_of(a.dbias);
  for (std::size_t axis = 0; axis < 4; ++axis)
    g.dbias_size[axis] = is_broadcast(a.dbias, axis) ? 1 : a.dbias.size[axis];
  g.dsinks = static_cast<float*>(data_of(a.dsinks));
  g.dalibi = static_cast<float*>(data_of(a.dalibi));
  if (g.dalibi_stride != 0) g.dalibi_stride = a.dalibi.stride[0];
  return g;
}

semantics::Gradients make_gradients(const Problem& problem, const Arguments& arguments) {
  return make_gradients(planned_gradients(problem), arguments);
}

semantics::Call make_call(const Problem& problem, const Arguments& arguments) {
  return make_call(planned_call(problem), planned_sizes(problem, arguments.k.size[0]), arguments);
}

}  // namespace rapt
