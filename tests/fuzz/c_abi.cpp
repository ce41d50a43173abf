// Any arguments through the C API: a right attention of a shape the input chooses, then whatever
// the input changes about it. Nothing may crash. Functions that look at data are called only if
// every tensor provably lies inside its memory, for that is the caller's part.
#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "rapt/rapt.h"

namespace {

constexpr std::int64_t memory_bytes = 4096;  // of one tensor
constexpr std::int64_t longest_axis = 16;    // of what is run, so that a run stays short
constexpr std::size_t tensor_count = 14;

constexpr std::array<rapt_tensor rapt_arguments::*, tensor_count> members = {
    &rapt_arguments::q,          &rapt_arguments::k,         &rapt_arguments::v,
    &rapt_arguments::out,        &rapt_arguments::lse,       &rapt_arguments::bias,
    &rapt_arguments::mask,       &rapt_arguments::alibi,     &rapt_arguments::sinks,
    &rapt_arguments::q_starts,   &rapt_arguments::kv_starts, &rapt_arguments::kv_lengths,
    &rapt_arguments::page_table, &rapt_arguments::seed};

// One piece of heap memory for each tensor, so that the sanitizer sees a step outside.
char* memory_of(std::size_t tensor) {
  static std::array<std::vector<double>, tensor_count> memory = [] {
    std::array<std::vector<double>, tensor_count> result;
    for (auto& piece : result) piece.resize(memory_bytes / sizeof(double), 0.5);
    return result;
  }();
  return reinterpret_cast<char*>(memory[tensor].data());
}

std::int64_t element_bytes(std::int32_t dtype) {
  if (dtype == RAPT_DTYPE_U8) return 1;
  if (dtype == RAPT_DTYPE_I64) return 8;
  return dtype == RAPT_DTYPE_F16 || dtype == RAPT_DTYPE_BF16 ? 2 : 4;
}

// Null is inside: rapt must notice it.
bool inside_its_memory(const rapt_tensor& tensor, const char* memory) {
  if (tensor.dtype == RAPT_DTYPE_NONE || tensor.data == nullptr) return true;
  std::int64_t last = 0;
  for (std::size_t axis = 0; axis < 4; ++axis) {
    if (tensor.size[axis] < 0 || tensor.size[axis] > longest_axis) return false;
    if (tensor.stride[axis] < 0 || tensor.stride[axis] > memory_bytes) return false;
    last += std::max<std::int64_t>(tensor.size[axis] - 1, 0) * tensor.stride[axis];
  }
  const std::int64_t offset = static_cast<char*>(tensor.data) - memory;
  return offset + (last + 1) * element_bytes(tensor.dtype) <= memory_bytes;
}

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : bytes_(data, size) {}

  void call_everything() {
    make_arguments();
    make_options();
    for (int changes = from(0, 4); changes > 0; --changes) change_something();

    char text[64];
    std::size_t needed = 0;
    rapt_problem_of(&arguments_, &options_, text, from(0, sizeof text), &needed);

    const std::string kernel = bytes_.PickValueInArray({"", "cpu.naive", "cpu.oracle", "x"});
    const std::string config = bytes_.ConsumeRandomLengthString(8);
    const std::string device = rarely() ? bytes_.ConsumeRandomLengthString(8) : "cpu";
    rapt_plan_options plan_options;
    rapt_plan_options_init(&plan_options, sizeof plan_options);
    plan_options.kernel = kernel.c_str();
    plan_options.config = rarely() ? config.c_str() : nullptr;
    rapt_plan* plan = nullptr;
    rapt_plan_create(&arguments_, &options_, device.c_str(), &plan_options, &plan);

    if (may_be_run()) {
      rapt_check(&arguments_, &options_, nullptr);
      if (plan != nullptr) run(plan);
      const rapt_partial first = {sizeof first, arguments_.out, arguments_.lse};
      const rapt_partial second = {sizeof second, arguments_.q, arguments_.lse};
      rapt_merge(&first, &second, &first, nullptr, nullptr);
    }
    rapt_plan_destroy(plan);
  }

 private:
  int from(int low, int high) { return bytes_.ConsumeIntegralInRange(low, high); }
  bool rarely() { return from(0, 15) == 15; }
  bool coin() { return bytes_.ConsumeBool(); }
  std::int64_t any_integer() {
    if (coin()) return from(-1, longest_axis + 1);
    return bytes_.ConsumeIntegral<std::int64_t>();
  }

  void set(std::size_t tensor, std::int32_t dtype, std::array<std::int64_t, 4> size) {
    rapt_tensor_dense(&(arguments_.*members[tensor]), memory_of(tensor), dtype, 4, size.data());
  }

  // Numbers for starts, lengths and pages: rising or not, in range or not.
  void set_indices(std::size_t tensor, std::array<std::int64_t, 4> size, int largest_step) {
    set(tensor, RAPT_DTYPE_I32, size);
    auto* indices = reinterpret_cast<std::int32_t*>(memory_of(tensor));
    std::int32_t value = 0;
    for (int i = 0; i < 12; ++i) {
      indices[i] = rarely() ? bytes_.ConsumeIntegral<std::int32_t>() : value;
      value += from(0, largest_step);
    }
  }

  void make_arguments() {
    rapt_arguments_init(&arguments_, sizeof arguments_);
    enum {
      q,
      k,
      v,
      out,
      lse,
      bias,
      mask,
      alibi,
      sinks,
      q_starts,
      kv_starts,
      kv_lengths,
      pages,
      seed
    };
    const bool packed = coin(), paged = coin();
    const std::int64_t batch = from(0, 3), q_len = from(0, 4), kv_len = from(0, 4);
    const std::int64_t kv_heads = from(1, 2), heads = kv_heads * from(1, 2);
    const std::int64_t dim = from(1, 5), v_dim = from(1, 5), page_size = from(1, 3);
    const std::int32_t dtype = from(RAPT_DTYPE_F32, RAPT_DTYPE_BF16);
    const std::int64_t q_outer = packed ? 1 : batch, q_rows = packed ? batch * q_len : q_len;
    const std::int64_t kv_outer = paged ? 4 : packed ? 1 : batch;
    const std::int64_t kv_rows = paged ? page_size : packed ? batch * kv_len : kv_len;
    set(q, dtype, {q_outer, q_rows, heads, dim});
    set(k, dtype, {kv_outer, kv_rows, kv_heads, dim});
    set(v, dtype, {kv_outer, kv_rows, kv_heads, v_dim});
    set(out, dtype, {q_outer, q_rows, heads, v_dim});
    const std::int64_t q_bound = packed ? q_rows : q_len;
    const std::int64_t kv_bound = paged ? kv_len * page_size : packed ? kv_rows : kv_len;
    if (coin()) set(lse, RAPT_DTYPE_F32, {q_outer, heads, q_rows, 1});
    if (coin()) set(bias, coin() ? dtype : 1, {coin() ? batch : 1, heads, q_bound, kv_bound});
    if (coin()) set(mask, RAPT_DTYPE_U8, {1, 1, coin() ? q_bound : 1, kv_bound});
    if (coin()) set(alibi, RAPT_DTYPE_F32, {heads, 1, 1, 1});
    if (coin()) set(sinks, RAPT_DTYPE_F32, {heads, 1, 1, 1});
    if (packed) set_indices(q_starts, {batch + 1, 1, 1, 1}, static_cast<int>(q_len));
    if (packed && !paged) set_indices(kv_starts, {batch + 1, 1, 1, 1}, static_cast<int>(kv_len));
    if (coin()) set_indices(kv_lengths, {batch, 1, 1, 1}, 1);
    if (paged) set_indices(pages, {batch, kv_len, 1, 1}, 1);
    drops_ = rarely();
    if (drops_) set(seed, RAPT_DTYPE_I64, {2, 1, 1, 1});
  }

  void make_options() {
    rapt_options_init(&options_, sizeof options_);
    options_.causal = coin();
    options_.softcap = rarely() ? bytes_.ConsumeFloatingPoint<float>() : 0;
    options_.dropout = drops_ ? 0.5 : rarely() ? bytes_.ConsumeFloatingPoint<double>() : 0;
    const auto maybe = [&](std::int32_t& has, std::int64_t& value) {
      has = rarely();
      value = has ? any_integer() : 0;
    };
    maybe(options_.has_window_left, options_.window_left);
    maybe(options_.has_window_right, options_.window_right);
    options_.window_first_keys = rarely() ? any_integer() : 0;
    maybe(options_.has_offset, options_.offset);
    maybe(options_.has_max_q_len, options_.max_q_len);
    maybe(options_.has_max_kv_len, options_.max_kv_len);
    maybe(options_.has_total_kv, options_.total_kv);
    options_.has_scale = rarely();
    options_.scale = options_.has_scale ? bytes_.ConsumeFloatingPoint<float>() : 0;
  }

  void change_something() {
    const auto index = static_cast<std::size_t>(from(0, tensor_count - 1));
    const auto axis = static_cast<std::size_t>(from(0, 3));
    rapt_tensor& tensor = arguments_.*members[index];
    switch (from(0, 7)) {
      case 0: tensor.data = nullptr; break;
      case 1: tensor.data = memory_of(index) + from(0, 64); break;
      case 2: tensor.dtype = coin() ? from(0, 6) : bytes_.ConsumeIntegral<std::int32_t>(); break;
      case 3: tensor.size[axis] = any_integer(); break;
      case 4: tensor.stride[axis] = any_integer(); break;
      case 5: tensor = {}; break;
      case 6:
        arguments_.struct_size = coin() ? 8 + 80 * index : bytes_.ConsumeIntegral<size_t>();
        break;
      default: options_.struct_size = coin() ? 8 * axis : bytes_.ConsumeIntegral<size_t>();
    }
    // Sizes above what the structs have would send rapt to read the bytes behind them.
    arguments_.struct_size = std::min(arguments_.struct_size, sizeof arguments_);
    options_.struct_size = std::min(options_.struct_size, sizeof options_);
  }

  bool may_be_run() const {
    if (options_.max_q_len > memory_bytes || options_.max_kv_len > memory_bytes) return false;
    for (std::size_t i = 0; i < tensor_count; ++i) {
      if (!inside_its_memory(arguments_.*members[i], memory_of(i))) return false;
    }
    return true;
  }

  void run(const rapt_plan* plan) const {
    rapt_launch launch;
    rapt_launch_init(&launch, sizeof launch);
    rapt_buffer* buffer = nullptr;
    rapt_plan_workspace_bytes(plan, &launch.workspace_bytes);
    if (launch.workspace_bytes > 1 << 20) return;
    if (rapt_buffer_create(nullptr, launch.workspace_bytes, &buffer) != RAPT_OK) std::abort();
    rapt_buffer_data(buffer, &launch.workspace);
    rapt_plan_run(plan, &arguments_, &launch);
    rapt_buffer_destroy(buffer);
  }

  FuzzedDataProvider bytes_;
  rapt_arguments arguments_;
  rapt_options options_;
  bool drops_ = false;  // with a seed
};

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) { return setenv("RAPT_THREADS", "1", 1); }

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input(data, size).call_everything();
  return 0;
}
