#include "python/module/request.hpp"

#include <algorithm>

#include "python/module/fault.hpp"
#include "python/module/interruptible.hpp"
#include "python/module/values.hpp"

namespace rapt_python {
namespace {

using rapt::DType;
using rapt::Tensor;

std::string axes_of(const Array& array) {
  return std::to_string(array.axes()) + (array.axes() == 1 ? " axis" : " axes");
}

bool is_floating_point(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

std::string text_of(const std::array<std::int64_t, 4>& sizes, int axes) {
  std::string text;
  for (int axis = 4 - axes; axis < 4; ++axis)
    text += (text.empty() ? "(" : ", ") + std::to_string(sizes[static_cast<std::size_t>(axis)]);
  return text + ")";
}

// Whether a call names it by a keyword, beside q, k, v and out. A forward call asks for lse by
// return_lse.
bool is_optional(const rapt::TensorInfo& info, rapt::Operation operation) {
  const bool read = info.forward.use == rapt::TensorInfo::Use::reads;
  if (operation == rapt::Operation::forward) return read && !info.forward.needed;
  const bool by_position = read && info.forward.needed;
  return info.backward.use != rapt::TensorInfo::Use::none && !by_position;
}

// What a keyword names; null: nothing. `lengths` is short for kv_lengths.
const rapt::TensorInfo* optional_tensor(std::string_view keyword, rapt::Operation operation) {
  if (keyword == "lengths") keyword = "kv_lengths";
  for (const rapt::TensorInfo& info : rapt::tensors()) {
    if (is_optional(info, operation) && info.name == keyword) return &info;
  }
  return nullptr;
}

// Lengths, starts, page tables and seeds.
bool takes_integers(const rapt::TensorInfo& info) {
  constexpr std::string_view names[] = {"q_starts", "kv_starts", "kv_lengths", "page_table",
                                        "seed"};
  return std::ranges::find(names, info.name) != std::end(names);
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

rapt::Problem problem_of(const Request& request, const rapt::Options& options,
                         const std::string& layout) {
  const rapt::Arguments& a = request.arguments();
  try {
    return rapt::Problem::of(a, options);
  } catch (const rapt::Error& error) {
    // Heads that cannot share, where the axis beside them could.
    const auto share = [&](std::size_t axis) {
      return a.k.size[axis] > 0 && a.q.size[axis] % a.k.size[axis] == 0;
    };
    const bool exchanged =
        !a.page_table.present() && !a.q_starts.present() && !share(2) && share(1);
    if (!exchanged || error.code() != rapt::ErrorCode::invalid_argument) throw;
    const bool heads_first = layout == "bhsd";
    throw rapt::Error(error.code(),
                      std::string(error.what()) + ". The layout is " + layout + ": " +
                          (heads_first ? "(batch, head, seq, dim)" : "(batch, seq, head, dim)") +
                          "; for " +
                          (heads_first ? "(batch, seq, head, dim)" : "(batch, head, seq, dim)") +
                          " give layout=\"" + (heads_first ? "bshd" : "bhsd") + "\"");
  }
}

std::optional<DType> out_dtype_from(nb::handle object) {
  const auto name = optional_from(text_from, "out_dtype", object);
  if (!name) return {};
  if (*name != "f32") fault("out_dtype is '" + *name + "'; it is None, for q's type, or 'f32'");
  return DType::f32;
}

Request::Request(const Inputs& inputs, Outputs outputs)
    : like_(inputs.q),
      operation_(inputs.operation),
      heads_first_(inputs.layout == "bhsd"),
      device_(device_of("q", inputs.q)),
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
  read_others(inputs.others, inputs.function);
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
  if (!is_floating_point(array.dtype())) array.refuse_type(name);
  if (array.axes() < 3) {
    fault(std::string(name) + " has " + axes_of(array) +
          "; it needs four (three where there is no batch axis)");
  }
  const Tensor tensor = array.tensor(4 - array.axes());
  return heads_first_ ? tensor.transposed(1, 2) : tensor;
}

void Request::read_others(const nb::kwargs& others, const char* function) {
  for (const auto& [key, object] : others) {
    const std::string_view name = utf8_of(key).value_or("");
    const rapt::TensorInfo* info = optional_tensor(name, operation_);
    if (!info) refuse_keyword(function, key);
    if (object.is_none() || info->backward.use == rapt::TensorInfo::Use::writes) continue;
    if ((arguments_.*info->member).present()) refuse_two_names("kv_lengths", "lengths");
    arguments_.*info->member = tensor(*info, name.data(), object);
  }
}

Tensor Request::tensor(const rapt::TensorInfo& info, const char* name, nb::handle object) {
  switch (info.form) {
    case rapt::TensorInfo::Form::rows: return main_tensor(name, object);
    case rapt::TensorInfo::Form::logsumexp: return lse_tensor(name, object);
    default: return other_tensor(info, name, object);
  }
}

// Lists, and integers of another size than rapt takes, are copied into an array of q's library.
const Array& Request::import_other(const rapt::TensorInfo& info, const char* name,
                                   nb::handle object) {
  const auto convert = [&] {
    return nb::module_::import_("rapt._libraries").attr("converted")(name, object, like_);
  };
  const std::size_t count = array_count_;
  if (PyList_Check(object.ptr()) || PyTuple_Check(object.ptr())) {
    return import(name, copies_.emplace_back(convert()));
  }
  nb::object copy;
  try {
    const Array& array = import(name, object);
    const DType wanted = info.name == "seed" ? DType::i64 : DType::i32;
    const bool is_taken = array.dtype() == wanted || is_floating_point(array.dtype());
    if (is_taken || info.form == rapt::TensorInfo::Form::pairs) return array;
    copy = convert();
    if (copy.is_none()) return array;
  } catch (const rapt::Error&) {
    copy = convert();
    if (copy.is_none()) throw;
  }
  array_count_ = count;
  return import(name, copies_.emplace_back(copy));
}

Tensor Request::other_tensor(const rapt::TensorInfo& info, const char* name, nb::handle object) {
  const Array& array = import_other(info, name, object);
  if (info.name == "mask" && array.dtype() != DType::u8) {
    fault("mask is ", array.element_type(),
          "; it is bool, True where a pair may attend: convert it, or give what is added to scores "
          "as bias");
  }
  if (info.form == rapt::TensorInfo::Form::pairs) return array.tensor(4 - array.axes());
  if (takes_integers(info) && is_floating_point(array.dtype())) array.refuse_type(name);
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
    bool interrupted = false;
    {
      const nb::gil_scoped_release released;
      const CpuWorkspace workspace(bytes);
      const Interruptible call;
      plan.run(arguments_, {.stream = nullptr, .workspace = workspace.bytes()});
      interrupted = call.interrupted();
    }
    if (interrupted) throw nb::python_error();  // which the look at the signals has set
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
