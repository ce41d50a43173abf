// XLA hands over buffers and a few texts; a plan is made of the texts at the first call of each
// kind and remembered. Nothing here needs Python: XLA calls from threads of its own, many at once.
//
// Texts: `problem`, `kernel` and `config` are the plan's, `layout` is of the arrays, and `operands`
// and `results` name the buffers as rapt::tensors() does. After the results comes the workspace,
// which XLA plans for as for any of its buffers.
#include "python/module/xla_calls.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "python/module/fault.hpp"
#include "python/module/xla.hpp"
#include "rapt/rapt.hpp"

namespace rapt_python {
namespace {

namespace nb = nanobind;
using rapt::DType;
using rapt::Tensor;
using rapt::TensorInfo;

std::string_view attribute(const xla::Attributes& all, std::string_view name) {
  for (std::int64_t i = 0; i < all.size; ++i) {
    if (std::string_view(all.names[i]->data, all.names[i]->size) != name) continue;
    if (all.types[i] != xla::string) break;
    const auto& text = *static_cast<const xla::Text*>(all.values[i]);
    return {text.data, text.size};
  }
  fault("the custom call has no text '", name, "'; call rapt.jax.attention");
}

const TensorInfo& tensor_named(std::string_view name) {
  const auto found = std::ranges::find(rapt::tensors(), name, &TensorInfo::name);
  if (found == rapt::tensors().end())
    fault("'", name, "' names no tensor; call rapt.jax.attention");
  return *found;
}

std::vector<const TensorInfo*> tensors_named(std::string_view names) {
  std::vector<const TensorInfo*> all;
  while (!names.empty()) {
    const std::size_t end = std::min(names.find(' '), names.size());
    all.push_back(&tensor_named(names.substr(0, end)));
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return all;
}

DType dtype_of(xla::DataType dtype) {
  switch (dtype) {
    case xla::f32: return DType::f32;
    case xla::f16: return DType::f16;
    case xla::bf16: return DType::bf16;
    case xla::s32: return DType::i32;
    case xla::pred: return DType::u8;
  }
  fault("a buffer has XLA's type ", std::to_string(dtype), "; call rapt.jax.attention");
}

// A call site: calls of one text share it.
struct Call {
  rapt::Plan plan;
  std::vector<const TensorInfo*> operands, results;
  bool heads_first;

  Call(const xla::Attributes& texts, const rapt::Device& device)
      : plan(rapt::Problem::parse(attribute(texts, "problem")), device,
             {.kernel = attribute(texts, "kernel"),
              .config = rapt::Config::parse(attribute(texts, "config"))}),
        operands(tensors_named(attribute(texts, "operands"))),
        results(tensors_named(attribute(texts, "results"))),
        heads_first(attribute(texts, "layout") == "bhsd") {}

  // Of q, k and v, one sequence may stand for the whole batch.
  Tensor tensor(const TensorInfo& info, const xla::Buffer& buffer) const {
    const std::span dims(buffer.dims, static_cast<std::size_t>(buffer.rank));
    Tensor result = Tensor::dense(buffer.data, dtype_of(buffer.dtype), dims);
    if (info.form != TensorInfo::Form::rows) return result;
    if (heads_first) result = result.transposed(1, 2);
    const rapt::Problem& problem = plan.problem();
    if (result.size[0] == 1 && !problem.varlen && !problem.paged()) {
      result.size[0] = problem.batch;
      result.stride[0] = 0;
    }
    return result;
  }

  void assign(rapt::Arguments& arguments, const std::vector<const TensorInfo*>& infos,
              const xla::Buffers& buffers) const {
    if (buffers.size < static_cast<std::int64_t>(infos.size()))
      fault("the custom call has ", std::to_string(buffers.size), " buffers and ",
            std::to_string(infos.size()), " names; call rapt.jax.attention");
    for (std::size_t i = 0; i < infos.size(); ++i)
      arguments.*infos[i]->member = tensor(*infos[i], *buffers.buffers[i]);
  }
};

std::shared_ptr<const Call> remembered_call(const xla::Attributes& texts,
                                            const rapt::Device& device) {
  static auto& mutex = *new std::shared_mutex;
  static auto& calls = *new std::unordered_map<std::string, std::shared_ptr<const Call>>;
  std::string key = device.to_string();
  for (const char* name : {"problem", "kernel", "config", "layout", "operands", "results"})
    key.append(1, '\n').append(attribute(texts, name));
  {
    const std::shared_lock lock(mutex);
    const auto found = calls.find(key);
    if (found != calls.end()) return found->second;
  }
  auto call = std::make_shared<const Call>(texts, device);
  const std::lock_guard lock(mutex);
  return calls.emplace(std::move(key), std::move(call)).first->second;
}

// A failure of XLA's is handed back to it.
struct Failure {
  xla::Error* error;
};

const rapt::Device& cuda_device(const xla::CallFrame& frame) {
  static auto& mutex = *new std::mutex;
  static auto& devices = *new std::unordered_map<std::int32_t, rapt::Device>;
  if (frame.api->struct_size < offsetof(xla::Api, device_ordinal_get) + sizeof(void*))
    fault("this version of XLA does not say which GPU it calls for; use jaxlib 0.7 or newer");
  xla::DeviceOrdinalGet get{sizeof get, nullptr, frame.context, 0};
  if (xla::Error* error = frame.api->device_ordinal_get(&get)) throw Failure{error};
  const std::lock_guard lock(mutex);
  const auto found = devices.find(get.ordinal);
  if (found != devices.end()) return found->second;
  return devices.emplace(get.ordinal, rapt::Device::cuda(get.ordinal)).first->second;
}

const rapt::Device& cpu_device() {
  static const auto& device = *new rapt::Device(rapt::Device::cpu());
  return device;
}

void* stream_of(const xla::CallFrame& frame) {
  xla::StreamGet get{sizeof get, nullptr, frame.context, nullptr};
  if (xla::Error* error = frame.api->stream_get(&get)) throw Failure{error};
  return get.stream;
}

template <rapt::Backend backend>
void execute(const xla::CallFrame& frame) {
  constexpr bool on_gpu = backend == rapt::Backend::cuda;
  const rapt::Device& device = on_gpu ? cuda_device(frame) : cpu_device();
  const auto call = remembered_call(frame.attributes, device);
  rapt::Arguments arguments;
  call->assign(arguments, call->operands, frame.arguments);
  call->assign(arguments, call->results, frame.results);
  // It is longer than the plan's by an alignment: XLA's own is less.
  const xla::Buffer& last = *frame.results.buffers[frame.results.size - 1];
  void* start = last.data;
  auto bytes = static_cast<std::size_t>(last.dims[0]);
  if (!std::align(rapt::workspace_alignment, 0, start, bytes)) bytes = 0;
  call->plan.run(arguments, {.stream = on_gpu ? stream_of(frame) : nullptr,
                             .workspace = {static_cast<std::byte*>(start), bytes}});
}

xla::ErrorCode code_of(rapt::ErrorCode code) {
  switch (code) {
    case rapt::ErrorCode::invalid_argument: return xla::invalid_argument;
    case rapt::ErrorCode::unsupported: return xla::unimplemented;
    case rapt::ErrorCode::not_found: return xla::not_found;
    case rapt::ErrorCode::out_of_memory: return xla::resource_exhausted;
    default: return xla::internal;
  }
}

xla::Error* error_of(const xla::CallFrame& frame, xla::ErrorCode code, const char* sentence) {
  xla::ErrorCreate create{sizeof create, nullptr, sentence, code};
  return frame.api->error_create(&create);
}

// XLA asks which version a handler was written for, and takes some before its own. What is used
// here has not changed in any of version 0, so that the answer is XLA's own version of it; where
// XLA brings no API to the question, that is 0.1.
void tell_version(const xla::CallFrame& frame) {
  xla::Metadata& metadata = *reinterpret_cast<xla::MetadataExtension*>(frame.extension)->metadata;
  const int minor = frame.api == nullptr ? 1 : frame.api->version.minor;
  metadata.version = {sizeof metadata.version, nullptr, 0, minor};
  metadata.traits = 0;
}

template <rapt::Backend backend>
xla::Error* handle(xla::CallFrame* frame) {
  if (frame->extension != nullptr && frame->extension->type == xla::metadata) {
    tell_version(*frame);
    return nullptr;
  }
  try {
    execute<backend>(*frame);
    return nullptr;
  } catch (const Failure& failure) {
    return failure.error;
  } catch (const rapt::Error& error) {
    return error_of(*frame, code_of(error.code()), error.what());
  } catch (const std::exception& error) {
    return error_of(*frame, xla::internal, error.what());
  }
}

nb::object capsule_of(xla::Handler* handler) {
  return nb::steal(PyCapsule_New(reinterpret_cast<void*>(handler), nullptr, nullptr));
}

}  // namespace

nb::dict xla_handlers() {
  nb::dict handlers;
  handlers["cpu"] = capsule_of(&handle<rapt::Backend::cpu>);
  handlers["CUDA"] = capsule_of(&handle<rapt::Backend::cuda>);
  return handlers;
}

}  // namespace rapt_python
