#include "src/library/c_structs.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "src/core/tensors.hpp"
#include "src/library/c_error.hpp"

namespace rapt::c {
namespace {

// No version of any struct is larger: what is above was never set.
constexpr std::size_t largest_struct = 4096;

// The size of every struct is a multiple of this.
constexpr std::size_t granule = sizeof(std::size_t);

void check_struct_size(std::size_t size, std::size_t least, std::string_view name) {
  if (size < least || size > largest_struct || size % granule != 0) {
    fault(name, "'s struct_size is ", size, "; it must be a multiple of ", granule, " from ", least,
          " to ", largest_struct, ": set the struct up with its rapt_*_init(pointer, sizeof)");
  }
}

template <class Struct>
std::int32_t init(Struct* target, std::size_t size, std::string_view name) {
  return guarded([&] {
    require(target, name);
    check_struct_size(size, sizeof target->struct_size, name);
    std::memset(static_cast<void*>(target), 0, size);
    target->struct_size = size;
  });
}

// A copy of the fields that the caller's version of the struct has; the others are zero. A newer
// caller's extra fields must be at their default, zero, for this version does not know them.
template <class Struct>
Struct read_struct(const Struct* given, std::size_t least, std::string_view name) {
  require(given, name);
  const std::size_t size = given->struct_size;
  check_struct_size(size, least, name);
  Struct result = {};
  std::memcpy(&result, given, std::min(size, sizeof result));
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  for (std::size_t at = sizeof result; at < size; ++at) {
    if (bytes[at] != 0) {
      fault(name, "'s struct_size is ", size, " and byte ", at,
            " is not 0; this version of rapt knows ", sizeof result,
            " bytes: leave newer fields alone, or use a newer rapt");
    }
  }
  return result;
}

// The fields that the caller's version of the struct has; struct_size stays.
template <class Struct>
void write_struct(Struct* target, const Struct& filled, std::string_view name) {
  require(target, name);
  const std::size_t size = target->struct_size;
  check_struct_size(size, sizeof size, name);
  std::memcpy(target, &filled, std::min(size, sizeof filled));
  target->struct_size = size;
}

bool flag_from(std::int32_t value, std::string_view name) {
  if (value != 0 && value != 1) fault(name, " is ", value, "; a flag is 0 or 1");
  return value == 1;
}

// `has` says whether `value` counts; a value without it is a slip worth a sentence.
template <class Value>
std::optional<Value> optional_from(std::int32_t has, Value value, std::string_view name,
                                   std::string_view owner = "options") {
  if (flag_from(has, text(owner, ".has_", name))) return value;
  if (value != 0) {
    fault(owner, ".", name, " is ", value, " but ", owner, ".has_", name,
          " is 0; set it to 1 for the value to count");
  }
  return std::nullopt;
}

}  // namespace

DType dtype_from(std::int32_t value, std::string_view name) {
  if (value < RAPT_DTYPE_NONE || value > RAPT_DTYPE_I64)
    fault(name, "'s dtype is ", value, "; it must be one of rapt_dtype, 0 to ",
          int{RAPT_DTYPE_I64});
  return static_cast<DType>(value);
}

Tensor tensor_from(const rapt_tensor& given, std::string_view name) {
  Tensor tensor;
  if (given.dtype != RAPT_DTYPE_NONE) {
    tensor.dtype = dtype_from(given.dtype, name);
    tensor.data = given.data;
    std::ranges::copy(given.size, tensor.size.begin());
    std::ranges::copy(given.stride, tensor.stride.begin());
  } else if (given.data != nullptr) {
    fault(name, " has data but no dtype; set its dtype, or its data to null if it is absent");
  }
  return tensor;
}

rapt_tensor tensor_to(const Tensor& tensor) {
  rapt_tensor result = {};
  result.data = tensor.data;
  result.dtype = static_cast<std::int32_t>(tensor.dtype);
  std::ranges::copy(tensor.size, result.size);
  std::ranges::copy(tensor.stride, result.stride);
  return result;
}

Arguments arguments_from(const rapt_arguments* given) {
  const auto arguments = read_struct(given, offsetof(rapt_arguments, lse), "arguments");
  Arguments result;
  for (const TensorRule& rule : tensor_rules())
    result.*rule.member = tensor_from(arguments.*rule.c_member, rule.name);
  return result;
}

Options options_from(const rapt_options* given) {
  if (given == nullptr) return {};
  const auto options = read_struct(given, sizeof given->struct_size, "options");
  Options result;
  result.causal = flag_from(options.causal, "options.causal");
  result.batch_invariant = flag_from(options.batch_invariant, "options.batch_invariant");
  result.row_invariant = flag_from(options.row_invariant, "options.row_invariant");
  result.tf32 = flag_from(options.tf32, "options.tf32");
  result.window.left = optional_from(options.has_window_left, options.window_left, "window_left");
  result.window.right =
      optional_from(options.has_window_right, options.window_right, "window_right");
  result.window.first_keys = options.window_first_keys;
  result.offset = optional_from(options.has_offset, options.offset, "offset");
  result.scale = optional_from(options.has_scale, options.scale, "scale");
  result.softcap = options.softcap;
  result.dropout = options.dropout;
  result.max_q_len = optional_from(options.has_max_q_len, options.max_q_len, "max_q_len");
  result.max_kv_len = optional_from(options.has_max_kv_len, options.max_kv_len, "max_kv_len");
  result.total_kv = optional_from(options.has_total_kv, options.total_kv, "total_kv");
  return result;
}

Launch launch_from(const rapt_launch* given) {
  if (given == nullptr) return {};
  const auto launch = read_struct(given, sizeof given->struct_size, "launch");
  if (launch.workspace == nullptr && launch.workspace_bytes > 0)
    fault("launch.workspace is null but launch.workspace_bytes is ", launch.workspace_bytes);
  return {.stream = launch.stream,
          .workspace = {static_cast<std::byte*>(launch.workspace), launch.workspace_bytes}};
}

Partial partial_from(const rapt_partial* given, std::string_view name) {
  const auto partial = read_struct(given, offsetof(rapt_partial, lse) + sizeof given->lse, name);
  return {tensor_from(partial.out, text(name, ".out")),
          tensor_from(partial.lse, text(name, ".lse"))};
}

Device device_from(const char* text) { return Device::parse(text ? text : "cpu"); }

rapt_plan_options plan_options_from(const rapt_plan_options* given) {
  if (given == nullptr) return {};
  return read_struct(given, sizeof given->struct_size, "plan_options");
}

std::optional<std::size_t> workspace_limit_from(const rapt_plan_options& options) {
  return optional_from(options.has_workspace_limit, options.workspace_limit, "workspace_limit",
                       "plan_options");
}

rapt_merge_options merge_options_from(const rapt_merge_options* given) {
  if (given == nullptr) return {};
  return read_struct(given, sizeof given->struct_size, "merge_options");
}

rapt_executor executor_from(const rapt_executor* given) {
  const auto executor =
      read_struct(given, offsetof(rapt_executor, reserved) + sizeof given->reserved, "executor");
  if (executor.parallel_for == nullptr) fault("executor.parallel_for is null; it is needed");
  if (executor.concurrency < 1)
    fault("executor.concurrency is ", executor.concurrency, "; it must be 1 or more");
  if (executor.reserved != 0) fault("executor.reserved is ", executor.reserved, "; it must be 0");
  return executor;
}

void device_to(const Device& device, rapt_device_properties* target) {
  rapt_device_properties properties = {};
  properties.backend = static_cast<std::int32_t>(device.backend);
  properties.index = device.index;
  properties.threads = device.threads;
  properties.multiprocessors = device.multiprocessors;
  properties.f32_flops = device.nominal.f32_flops;
  properties.matrix_flops = device.nominal.matrix_flops;
  properties.read_bandwidth = device.nominal.read_bandwidth;
  properties.copy_bandwidth = device.nominal.copy_bandwidth;
  properties.memory_bytes = device.nominal.memory_bytes;
  properties.cache_bytes = device.nominal.cache_bytes;
  TextTarget{properties.chip, sizeof properties.chip, nullptr}.write(device.name);
  TextTarget{properties.features, sizeof properties.features, nullptr}.write(device.features);
  write_struct(target, properties, "properties");
}

std::size_t struct_size_of(std::string_view name) {
  static constexpr std::pair<std::string_view, std::size_t> sizes[] = {
      {"rapt_tensor", sizeof(rapt_tensor)},
      {"rapt_arguments", sizeof(rapt_arguments)},
      {"rapt_options", sizeof(rapt_options)},
      {"rapt_executor", sizeof(rapt_executor)},
      {"rapt_plan_options", sizeof(rapt_plan_options)},
      {"rapt_launch", sizeof(rapt_launch)},
      {"rapt_partial", sizeof(rapt_partial)},
      {"rapt_merge_options", sizeof(rapt_merge_options)},
      {"rapt_device_properties", sizeof(rapt_device_properties)},
  };
  std::string names;
  for (const auto& [known, size] : sizes) {
    if (known == name) return size;
    names += text(names.empty() ? "" : ", ", known);
  }
  fault("there is no struct '", name, "'; there are ", names);
}

}  // namespace rapt::c

std::int32_t rapt_arguments_init(rapt_arguments* arguments, std::size_t struct_size) {
  return rapt::c::init(arguments, struct_size, "arguments");
}

std::int32_t rapt_options_init(rapt_options* options, std::size_t struct_size) {
  return rapt::c::init(options, struct_size, "options");
}

std::int32_t rapt_executor_init(rapt_executor* executor, std::size_t struct_size) {
  return rapt::c::init(executor, struct_size, "executor");
}

std::int32_t rapt_plan_options_init(rapt_plan_options* options, std::size_t struct_size) {
  return rapt::c::init(options, struct_size, "plan_options");
}

std::int32_t rapt_launch_init(rapt_launch* launch, std::size_t struct_size) {
  return rapt::c::init(launch, struct_size, "launch");
}

std::int32_t rapt_partial_init(rapt_partial* partial, std::size_t struct_size) {
  return rapt::c::init(partial, struct_size, "partial");
}

std::int32_t rapt_merge_options_init(rapt_merge_options* options, std::size_t struct_size) {
  return rapt::c::init(options, struct_size, "merge_options");
}

std::int32_t rapt_device_properties_init(rapt_device_properties* properties,
                                         std::size_t struct_size) {
  return rapt::c::init(properties, struct_size, "properties");
}
