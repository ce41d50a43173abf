#include "src/cuda/flash_wgmma/call_maps.hpp"

#include <algorithm>

#include "src/cuda/hopper/tensor_map.hpp"

namespace rapt::cuda::flash_wgmma {
namespace {

Index length_of_keys(const semantics::Call& call) {
  return call.page_table ? call.page_size : call.kv_starts ? call.total_kv : call.kv_len;
}
bool has_keys(const semantics::Call& call) {
  return length_of_keys(call) > 0 && (!call.page_table || call.page_count > 0);
}

}  // namespace

bool output_can_go_by_tma(const Problem& p) {
  return p.out_dtype == p.dtype && p.v_dim % 8 == 0 &&
         !has_unmapped_stride(p.out, p.varlen ? 1 : p.batch, p.varlen ? p.total_q : p.q_len,
                              p.heads);
}

bool bias_can_come_by_tma(const Problem& p, int packed) {
  const auto mapped = [](Index stride) {
    return stride % 8 == 0 && stride >= 0 && stride < Index{1} << 39;
  };
  return p.bias.present() && p.bias.dtype != DType::f32 && p.bias.varies[3] && p.kv_len > 0 &&
         p.bias.stride[2] > 0 && packed == 1 && std::ranges::all_of(p.bias.stride, mapped);
}

CUtensorMap map_of_rows(const semantics::Call& call, DType dtype, const Schedule& schedule,
                        const void* data, Index dim, const Index (&stride)[3]) {
  const Index packed = schedule.packed_heads.value;
  return tensor_map<5>({
      .data = data,
      .dtype = dtype,
      .size = {dim, packed, call.q_starts ? call.total_q : call.q_len, schedule.heads.value,
               call.q_starts ? 1 : call.batch},
      .stride = {stride[2], stride[1], stride[2] * packed, stride[0]},
      .box = {64, packed, schedule.queries, 1, 1},
  });
}

CUtensorMap map_of_keys(const semantics::Call& call, DType dtype, const void* data, Index dim,
                        const Index (&stride)[3], int rows) {
  // Numbers of pages are brought into the pool before they are used: its size can be anything.
  const Index outer = call.page_table ? most_pages : call.kv_starts ? 1 : call.batch;
  if (!has_keys(call))
    return tensor_map<4>({call.q, dtype, {1, 1, 1, 1}, {0, 0, 0}, {64, rows, 1, 1}});
  return tensor_map<4>({
      .data = data,
      .dtype = dtype,
      .size = {dim, length_of_keys(call), call.kv_heads, outer},
      .stride = {stride[1], stride[2], stride[0]},
      .box = {64, rows, 1, 1},
  });
}

// Axes along which it is broadcast have a length of 1.
CUtensorMap map_of_bias(const semantics::Call& call, DType dtype) {
  constexpr Index columns = 64, rows = 64;
  const Index(&stride)[4] = call.bias_stride;
  return tensor_map<4>({
      .data = call.bias,
      .dtype = dtype,
      .size = {call.kv_len, call.q_len, stride[1] == 0 ? 1 : call.heads,
               stride[0] == 0 ? 1 : call.batch},
      .stride = {stride[2], stride[1], stride[0]},
      .box = {columns, rows, 1, 1},
  });
}

void move_maps(Parameters& parameters, const semantics::Call& call) {
  parameters.call = call;
  move_map(parameters.queries, call.q);
  move_map(parameters.keys, has_keys(call) ? call.k : call.q);
  move_map(parameters.values, has_keys(call) ? call.v : call.q);
  if (parameters.output_by_tma) move_map(parameters.output, call.out);
}

}  // namespace rapt::cuda::flash_wgmma
