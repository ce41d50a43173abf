// The functions of rapt.h: each turns its arguments into the C++ types, calls the C++ API, and
// turns what comes back, exceptions included, into C.
#include <memory>
#include <optional>
#include <vector>

#include "rapt/rapt.h"
#include "rapt/rapt.hpp"
#include "src/library/c_error.hpp"
#include "src/library/c_executor.hpp"
#include "src/library/c_structs.hpp"

static_assert(RAPT_ERROR_INVALID_ARGUMENT == int(rapt::ErrorCode::invalid_argument));
static_assert(RAPT_ERROR_UNSUPPORTED == int(rapt::ErrorCode::unsupported));
static_assert(RAPT_ERROR_NOT_FOUND == int(rapt::ErrorCode::not_found));
static_assert(RAPT_ERROR_OUT_OF_MEMORY == int(rapt::ErrorCode::out_of_memory));
static_assert(RAPT_ERROR_DEVICE_FAILURE == int(rapt::ErrorCode::device_failure));
static_assert(RAPT_ERROR_INTERNAL == int(rapt::ErrorCode::internal));
static_assert(RAPT_DTYPE_NONE == int(rapt::DType::none));
static_assert(RAPT_DTYPE_F32 == int(rapt::DType::f32));
static_assert(RAPT_DTYPE_F16 == int(rapt::DType::f16));
static_assert(RAPT_DTYPE_BF16 == int(rapt::DType::bf16));
static_assert(RAPT_DTYPE_I32 == int(rapt::DType::i32));
static_assert(RAPT_DTYPE_U8 == int(rapt::DType::u8));
static_assert(RAPT_DTYPE_I64 == int(rapt::DType::i64));
static_assert(RAPT_BACKEND_CPU == int(rapt::Backend::cpu));
static_assert(RAPT_BACKEND_CUDA == int(rapt::Backend::cuda));
static_assert(RAPT_BACKEND_HIP == int(rapt::Backend::hip));
static_assert(RAPT_BACKEND_EMU == int(rapt::Backend::emu));

struct rapt_plan {
  std::unique_ptr<rapt::Executor> executor;  // null: rapt's own threads
  rapt::Plan plan;
};

struct rapt_buffer {
  rapt::Buffer buffer;
};

namespace rapt::c {
namespace {

Problem problem_from(const rapt_arguments* arguments, const rapt_options* options) {
  return Problem::of(arguments_from(arguments), options_from(options));
}

Problem problem_from(const char* text) {
  require(text, "problem");
  return Problem::parse(text);
}

std::unique_ptr<rapt_plan> make_plan(const Problem& problem, const char* device,
                                     const rapt_plan_options* given) {
  const rapt_plan_options options = plan_options_from(given);
  std::unique_ptr<Executor> executor;
  if (options.executor)
    executor = std::make_unique<CallbackExecutor>(executor_from(options.executor));
  const PlanOptions plan_options = {.kernel = options.kernel ? options.kernel : "",
                                    .config = Config::parse(options.config ? options.config : ""),
                                    .executor = executor.get(),
                                    .workspace_limit = workspace_limit_from(options)};
  Plan plan(problem, device_from(device), plan_options);
  return std::make_unique<rapt_plan>(rapt_plan{std::move(executor), std::move(plan)});
}

// The item that an index from C means.
template <class Item>
const Item& item_at(const std::vector<Item>& items, std::int32_t index, std::string_view what) {
  if (index < 0 || static_cast<std::size_t>(index) >= items.size())
    fault("index is ", index, "; there are ", items.size(), " ", what, ", counted from 0");
  return items[static_cast<std::size_t>(index)];
}

}  // namespace
}  // namespace rapt::c

using namespace rapt::c;
using rapt::fault;

const char* rapt_version(void) { return rapt::version().data(); }

std::int32_t rapt_tensor_dense(rapt_tensor* tensor, const void* data, std::int32_t dtype,
                               std::int32_t axes, const std::int64_t* size) {
  return guarded([&] {
    require(tensor, "tensor");
    const rapt::DType type = dtype_from(dtype, "the tensor");
    if (type == rapt::DType::none) fault("the tensor's dtype is 0; only an absent one has none");
    if (axes < 0 || axes > 4) fault("axes is ", axes, "; a tensor has 0 to 4 axes");
    if (axes > 0) require(size, "size");
    std::int64_t sizes[4] = {1, 1, 1, 1};
    for (std::int32_t axis = 0; axis < axes; ++axis) {
      sizes[axis] = size[axis];
      if (sizes[axis] < 0) fault("size[", axis, "] is ", sizes[axis], "; sizes are 0 or more");
    }
    *tensor = tensor_to(rapt::Tensor::dense(data, type, sizes));
  });
}

std::int32_t rapt_tensor_transposed(rapt_tensor* result, const rapt_tensor* tensor,
                                    std::int32_t axis, std::int32_t other) {
  return guarded([&] {
    require(result, "result");
    require(tensor, "tensor");
    *result = tensor_to(tensor_from(*tensor, "tensor").transposed(axis, other));
  });
}

std::int32_t rapt_attention(const rapt_arguments* arguments, const rapt_options* options,
                            const char* device) {
  return guarded([&] {
    rapt::attention(arguments_from(arguments), options_from(options), device_from(device));
  });
}

std::int32_t rapt_attention_backward(const rapt_arguments* arguments, const rapt_options* options,
                                     const char* device) {
  return guarded([&] {
    rapt::attention_backward(arguments_from(arguments), options_from(options), device_from(device));
  });
}

std::int32_t rapt_plan_create(const rapt_arguments* arguments, const rapt_options* options,
                              const char* device, const rapt_plan_options* plan_options,
                              rapt_plan** plan) {
  return guarded([&] {
    require(plan, "plan");
    *plan = nullptr;
    *plan = make_plan(problem_from(arguments, options), device, plan_options).release();
  });
}

std::int32_t rapt_plan_create_from_problem(const char* problem, const char* device,
                                           const rapt_plan_options* plan_options,
                                           rapt_plan** plan) {
  return guarded([&] {
    require(plan, "plan");
    *plan = nullptr;
    *plan = make_plan(problem_from(problem), device, plan_options).release();
  });
}

void rapt_plan_destroy(rapt_plan* plan) { delete plan; }

std::int32_t rapt_plan_run(const rapt_plan* plan, const rapt_arguments* arguments,
                           const rapt_launch* launch) {
  return guarded([&] {
    require(plan, "plan");
    plan->plan.run(arguments_from(arguments), launch_from(launch));
  });
}

std::int32_t rapt_plan_workspace_bytes(const rapt_plan* plan, std::size_t* bytes) {
  return guarded([&] {
    require(plan, "plan");
    require(bytes, "bytes");
    *bytes = plan->plan.workspace_bytes();
  });
}

std::int32_t rapt_plan_kernel(const rapt_plan* plan, const char** name) {
  return guarded([&] {
    require(plan, "plan");
    require(name, "name");
    *name = plan->plan.kernel().data();
  });
}

std::int32_t rapt_plan_config(const rapt_plan* plan, char* buffer, std::size_t capacity,
                              std::size_t* needed) {
  return guarded([&] {
    require(plan, "plan");
    TextTarget{buffer, capacity, needed}.write(plan->plan.config().to_string());
  });
}

std::int32_t rapt_plan_problem(const rapt_plan* plan, char* buffer, std::size_t capacity,
                               std::size_t* needed) {
  return guarded([&] {
    require(plan, "plan");
    TextTarget{buffer, capacity, needed}.write(plan->plan.problem().to_string());
  });
}

std::int32_t rapt_problem_of(const rapt_arguments* arguments, const rapt_options* options,
                             char* buffer, std::size_t capacity, std::size_t* needed) {
  return guarded([&] {
    TextTarget{buffer, capacity, needed}.write(problem_from(arguments, options).to_string());
  });
}

std::int32_t rapt_explain(const char* problem, const char* device, char* buffer,
                          std::size_t capacity, std::size_t* needed) {
  return guarded([&] {
    const auto explanation = rapt::explain(problem_from(problem), device_from(device));
    TextTarget{buffer, capacity, needed}.write(explanation.to_string());
  });
}

std::int32_t rapt_check(const rapt_arguments* arguments, const rapt_options* options,
                        const char* device) {
  return guarded([&] {
    const rapt::Arguments tensors = arguments_from(arguments);
    rapt::check(rapt::Problem::of(tensors, options_from(options)), tensors, device_from(device));
  });
}

std::int32_t rapt_merge(const rapt_partial* first, const rapt_partial* second,
                        const rapt_partial* result, const char* device,
                        const rapt_merge_options* given) {
  return guarded([&] {
    const rapt_merge_options options = merge_options_from(given);
    std::optional<CallbackExecutor> executor;
    if (options.executor) executor.emplace(executor_from(options.executor));
    rapt::merge(partial_from(first, "first"), partial_from(second, "second"),
                partial_from(result, "result"), device_from(device),
                {.stream = options.stream, .executor = executor ? &*executor : nullptr});
  });
}

std::int32_t rapt_buffer_create(const char* device, std::size_t bytes, rapt_buffer** buffer) {
  return guarded([&] {
    require(buffer, "buffer");
    *buffer = nullptr;
    rapt::Buffer memory(device_from(device), bytes);
    *buffer = std::make_unique<rapt_buffer>(rapt_buffer{std::move(memory)}).release();
  });
}

void rapt_buffer_destroy(rapt_buffer* buffer) { delete buffer; }

std::int32_t rapt_buffer_data(const rapt_buffer* buffer, void** data) {
  return guarded([&] {
    require(buffer, "buffer");
    require(data, "data");
    *data = buffer->buffer.data();
  });
}

std::int32_t rapt_buffer_copy_from_host(rapt_buffer* buffer, const void* source,
                                        std::size_t bytes) {
  return guarded([&] {
    require(buffer, "buffer");
    if (bytes > 0) require(source, 1, "source");
    buffer->buffer.copy_from_host(source, bytes);
  });
}

std::int32_t rapt_buffer_copy_to_host(const rapt_buffer* buffer, void* target, std::size_t bytes) {
  return guarded([&] {
    require(buffer, "buffer");
    if (bytes > 0) require(target, 1, "target");
    buffer->buffer.copy_to_host(target, bytes);
  });
}

std::int32_t rapt_kernel_count(std::int32_t* count) {
  return guarded([&] {
    require(count, "count");
    *count = static_cast<std::int32_t>(rapt::kernels().size());
  });
}

std::int32_t rapt_kernel_name(std::int32_t index, const char** name) {
  return guarded([&] {
    require(name, "name");
    *name = item_at(rapt::kernels(), index, "kernels").name.data();
  });
}

std::int32_t rapt_kernel_backend(std::int32_t index, std::int32_t* backend) {
  return guarded([&] {
    require(backend, "backend");
    *backend = static_cast<std::int32_t>(item_at(rapt::kernels(), index, "kernels").backend);
  });
}

std::int32_t rapt_device_count(std::int32_t* count) {
  return guarded([&] {
    require(count, "count");
    *count = static_cast<std::int32_t>(rapt::devices().size());
  });
}

std::int32_t rapt_device_name(std::int32_t index, char* buffer, std::size_t capacity,
                              std::size_t* needed) {
  return guarded([&] {
    TextTarget{buffer, capacity, needed}.write(
        item_at(rapt::devices(), index, "devices").to_string());
  });
}

std::int32_t rapt_device_describe(const char* device, rapt_device_properties* properties) {
  return guarded([&] { device_to(device_from(device), properties); });
}

std::int32_t rapt_struct_size(const char* name, std::size_t* size) {
  return guarded([&] {
    require(name, "name");
    require(size, "size");
    *size = struct_size_of(name);
  });
}
