#include "python/module/request.hpp"

namespace rapt_python {
namespace {

using rapt::DType;
using rapt::Tensor;

[[noreturn]] void fault(const std::string& sentence) {
  throw rapt::Error(rapt::ErrorCode::invalid_argument, sentence);
}

std::string axes_of(const Array& array) {
  return std::to_string(array.axes()) + (array.axes() == 1 ? " axis" : " axes");
}

std::string text_of(const std::array<std::int64_t, 4>& sizes, int axes) {
  std::string text;
  for (int axis = 4 - axes; axis < 4; ++axis)
    text += (text.empty() ? "(" : ", ") + std::to_string(sizes[static_cast<std::size_t>(axis)]);
  return text + ")";
}

// As Python calls a tensor.
std::string_view python_name(const rapt::TensorInfo& info) {
  return info.name == "kv_lengths" ? "lengths" : info.name;
}

// Whether a call names it by a keyword, beside q, k, v and out. A forward call asks for lse by
// return_lse.
bool is_optional(const rapt::TensorInfo& info, rapt::Operation operation) {
  if (operation == rapt::Operation::backward)
    return info.backward.use != rapt::TensorInfo::Use::none;
  return info.forward.use == rapt::TensorInfo::Use::reads && !info.forward.needed;
}

[[noreturn]] void refuse_keyword(const char* keyword, rapt::Operation operation) {
  std::string names;
  for (const rapt::TensorInfo& info : rapt::tensors()) {
    if (is_optional(info, operation))
      (names += names.empty() ? "" : ", ") += std::string(python_name(info));
  }
  const std::string sentence =
      "unexpected keyword argument '" + std::string(keyword) + "'; arrays are " + names;
  throw nb::type_error(sentence.c_str());
}

std::optional<std::int64_t> bound_from(nb::handle bound) {
  if (bound.is_none()) return {};
  return nb::cast<std::int64_t>(bound);
}

// Scratch memory of this thread on the CPU, kept while it is small.
class CpuWorkspace {
 public:
  explicit CpuWorkspace(std::size_t bytes) {
    static thread_local rapt::Buffer kept;
    constexpr std::size_t small = std::size_t{64} << 20;
    if (bytes > small)
      own_ = rapt::Buffer(rapt::Device::cpu(1), bytes);
    else if (bytes > kept.size())
      kept = rapt::Buffer(rapt::Device::cpu(1), bytes);
    bytes_ = bytes > small ? own_.bytes() : kept.bytes();
  }
  std::span<std::byte> bytes() const { return bytes_; }

 private:
  rapt::Buffer own_;
  std::span<std::byte> bytes_;
};

}  // namespace

std::optional<DType> out_dtype_from(const std::optional<std::string>& name) {
  if (!name) return {};
  if (*name != "f32") fault("out_dtype is '" + *name + "'; it is None, for q's type, or 'f32'");
  return DType::f32;
}

rapt::Window window_from(nb::handle window, std::int64_t first_keys) {
  rapt::Window result = {.left = {}, .right = {}, .first_keys = first_keys};
  if (nb::isinstance<nb::int_>(window)) {
    result.left = bound_from(window);
  } else if (nb::isinstance<nb::sequence>(window) && nb::len(window) == 2) {
    result.left = bound_from(window[0]);
    result.right = bound_from(window[1]);
  } else if (!window.is_none()) {
    fault("the window is neither a number of keys nor a pair (left, right)");
  }
  return result;
}

Request::Request(const Inputs& inputs, Outputs outputs)
    : like_(inputs.q),
      operation_(inputs.operation),
      heads_first_(inputs.layout == "bhsd"),
      device_(device_of(inputs.q)),
      stream_(current_stream(inputs.q, device_)) {
  if (!heads_first_ && inputs.layout != "bshd") {
    fault("the layout is '" + inputs.layout +
          "'; it is bshd (batch, sequence, head, dim) or bhsd (batch, head, sequence, dim)");
  }
  rapt::Arguments& a = arguments_;
  a.q = main_tensor("q", inputs.q);
  q_axes_ = arrays_[0]->axes();
  a.k = main_tensor("k", inputs.k);
  a.v = main_tensor("v", inputs.v);
  read_others(inputs.others);
  if (operation_ == rapt::Operation::forward) {
    make_outputs(inputs, outputs);
  } else {
    read_results(inputs);
    make_gradients(inputs, outputs);
  }
}

const Array& Request::import(const char* name, nb::handle object) {
  names_[array_count_] = name;
  const Array& array = arrays_[array_count_++].emplace(name, object, stream_);
  check_device(name, array, "q", device_);
  return array;
}

Tensor Request::main_tensor(const char* name, nb::handle object) {
  const Array& array = import(name, object);
  if (array.axes() < 3) {
    fault(std::string(name) + " has " + axes_of(array) +
          "; it needs four (three where there is no batch axis)");
  }
  const Tensor tensor = array.tensor(4 - array.axes());
  return heads_first_ ? tensor.transposed(1, 2) : tensor;
}

void Request::read_others(const nb::kwargs& others) {
  for (const auto& [key, object] : others) {
    const char* name = nb::borrow<nb::str>(key).c_str();
    const rapt::TensorInfo* info = optional_tensor(name);
    if (!info) refuse_keyword(name, operation_);
    const bool is_read = info->backward.use == rapt::TensorInfo::Use::reads;
    if (is_read && !object.is_none()) arguments_.*info->member = tensor(*info, name, object);
  }
}

// What a keyword names; null: nothing.
const rapt::TensorInfo* Request::optional_tensor(std::string_view keyword) const {
  for (const rapt::TensorInfo& info : rapt::tensors()) {
    if (is_optional(info, operation_) && python_name(info) == keyword) return &info;
  }
  return nullptr;
}

Tensor Request::tensor(const rapt::TensorInfo& info, const char* name, nb::handle object) {
  switch (info.form) {
    case rapt::TensorInfo::Form::rows: return main_tensor(name, object);
    case rapt::TensorInfo::Form::logsumexp: return lse_tensor(name, object);
    default: return other_tensor(info, name, object);
  }
}

Tensor Request::other_tensor(const rapt::TensorInfo& info, const char* name, nb::handle object) {
  const Array& array = import(name, object);
  if (info.form == rapt::TensorInfo::Form::pairs) return array.tensor(4 - array.axes());
  if (array.axes() < info.least_axes || array.axes() > info.most_axes) {
    fault(std::string(name) + " has " + axes_of(array) + "; it needs " +
          std::to_string(info.least_axes) +
          (info.most_axes > info.least_axes ? " or " + std::to_string(info.most_axes) : ""));
  }
  return array.tensor(0);
}

Tensor Request::lse_tensor(const char* name, nb::handle object) {
  const Array& array = import(name, object);
  if (array.axes() != q_axes_ - 1) {
    fault(std::string(name) + " has " + axes_of(array) + "; beside a q of " +
          std::to_string(q_axes_) + " axes it needs " + std::to_string(q_axes_ - 1));
  }
  return array.tensor(3 - array.axes());
}

// out has q's shape with v's dim, lse is (batch, head, sequence); without a batch axis where q has
// none.
void Request::make_outputs(const Inputs& inputs, Outputs outputs) {
  if (inputs.lse && !inputs.out.is_none()) {
    if (!nb::isinstance<nb::sequence>(inputs.out) || nb::len(inputs.out) != 2)
      fault("out is one array and the result two; give a pair (out, lse)");
    out_ = inputs.out[0];
    lse_ = inputs.out[1];
  } else {
    out_ = inputs.out;
    lse_ = nb::none();
  }
  rapt::Arguments& a = arguments_;
  const DType out_dtype = inputs.out_dtype.value_or(a.q.dtype);
  const std::array<std::int64_t, 4> out_size = {a.q.size[0], a.q.size[heads_first_ ? 2 : 1],
                                                a.q.size[heads_first_ ? 1 : 2], a.v.size[3]};
  const std::array<std::int64_t, 3> lse_size = {a.q.size[0], a.q.size[2], a.q.size[1]};
  const auto missing = static_cast<std::size_t>(4 - q_axes_);
  out_is_new_ = out_.is_none();
  lse_is_new_ = inputs.lse && lse_.is_none();
  if (outputs == Outputs::imagined && out_is_new_) {
    void* const aligned = reinterpret_cast<void*>(std::uintptr_t{64});  // as new arrays are
    const Tensor dense = Tensor::dense(aligned, out_dtype, out_size);
    a.out = heads_first_ ? dense.transposed(1, 2) : dense;
    if (lse_is_new_) a.lse = Tensor::dense(aligned, DType::f32, lse_size);
    return;
  }
  if (out_is_new_) out_ = new_array(like_, std::span(out_size).subspan(missing), out_dtype);
  a.out = main_tensor("out", out_);
  check_writable("out", *arrays_[array_count_ - 1]);
  const auto got = heads_first_ ? a.out.transposed(1, 2).size : a.out.size;
  if (got != out_size)
    fault("out is " + text_of(got, q_axes_) + "; the result is " + text_of(out_size, q_axes_));
  if (!inputs.lse) return;
  if (lse_is_new_) lse_ = new_array(like_, std::span(lse_size).subspan(missing), DType::f32);
  a.lse = lse_tensor("lse", lse_);
  check_writable("lse", *arrays_[array_count_ - 1]);
}

void Request::run(const rapt::Plan& plan) {
  const std::size_t bytes = plan.workspace_bytes();
  if (plan.device().backend == rapt::Backend::cpu) {
    const nb::gil_scoped_release released;
    const CpuWorkspace workspace(bytes);
    plan.run(arguments_, {.stream = nullptr, .workspace = workspace.bytes()});
    return;
  }
  const GpuWorkspace workspace(like_, device_, bytes, stream_);
  const nb::gil_scoped_release released;
  plan.run(arguments_, {.stream = stream_, .workspace = workspace.bytes()});
}

nb::object Request::result() {
  if (operation_ == rapt::Operation::backward) return gradients();
  nb::object out = out_is_new_ ? finished(like_, out_) : out_;
  if (!arguments_.lse.present()) return out;
  return nb::make_tuple(out, lse_is_new_ ? finished(like_, lse_) : lse_);
}

}  // namespace rapt_python
