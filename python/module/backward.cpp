// The arrays of a backward call: what forward gave is read, and gradients are written, to new
// arrays where the caller gives none.
#include <algorithm>

#include "python/module/fault.hpp"
#include "python/module/request.hpp"
#include "python/module/values.hpp"

namespace rapt_python {
namespace {

using rapt::DType;
using rapt::Tensor;
using rapt::TensorInfo;

// What a gradient is of: q for dq.
const TensorInfo& primal_of(const TensorInfo& gradient) {
  return *std::ranges::find(rapt::tensors(), gradient.name.substr(1), &TensorInfo::name);
}

// Of a new gradient: the sizes of what it is of, in the caller's order, and its type.
struct Description {
  std::array<std::int64_t, 4> size;
  std::size_t axes;
  DType dtype;

  // A bias has a sum for a gradient where it is broadcast, by its size or by its stride.
  Description(const TensorInfo& gradient, const Array& primal, std::optional<DType> wanted)
      : size(primal.tensor(0).size),
        axes(static_cast<std::size_t>(primal.axes())),
        dtype(wanted == DType::f32 ? DType::f32 : primal.dtype()) {
    if (gradient.form != TensorInfo::Form::pairs) return;
    for (std::size_t axis = 0; axis < axes; ++axis) {
      if (primal.tensor(0).stride[axis] == 0) size[axis] = 1;
    }
  }

  std::span<const std::int64_t> shape() const { return std::span(size).first(axes); }

  // As if it were there.
  Tensor imagined(const TensorInfo& gradient, bool heads_first) const {
    void* const aligned = reinterpret_cast<void*>(std::uintptr_t{64});  // as new arrays are
    if (gradient.form == TensorInfo::Form::plain) return Tensor::dense(aligned, dtype, shape());
    std::array<std::int64_t, 4> full = {1, 1, 1, 1};
    std::ranges::copy_backward(shape(), full.end());
    const Tensor tensor = Tensor::dense(aligned, dtype, full);
    const bool exchanged = heads_first && gradient.form == TensorInfo::Form::rows;
    return exchanged ? tensor.transposed(1, 2) : tensor;
  }
};

}  // namespace

rapt::Operation operation_of(const nb::kwargs& others) {
  const bool backward = others.contains("dout") && !others["dout"].is_none();
  return backward ? rapt::Operation::backward : rapt::Operation::forward;
}

void Request::read_results(const Inputs& inputs) {
  if (inputs.lse) fault("return_lse is True; backward returns gradients, and reads lse");
  if (inputs.out.is_none() || !arguments_.lse.present() || !arguments_.dout.present()) {
    fault(
        "backward needs out, lse and dout: what attention() gave with the same arguments and "
        "return_lse=True, and the gradient of its out");
  }
  arguments_.out = main_tensor("out", inputs.out);
}

// Each gradient is an array to write to, True for a new one, or None, which is a new one for dq, dk
// and dv.
void Request::make_gradients(const Inputs& inputs, Outputs outputs) {
  for (const TensorInfo& info : rapt::tensors()) {
    if (info.backward.use != TensorInfo::Use::writes) continue;
    const std::string name(info.name);
    nb::object array =
        inputs.others.contains(name.c_str()) ? nb::object(inputs.others[name.c_str()]) : nb::none();
    const bool is_said = !nb::hasattr(array, "__dlpack__") && is_truth(array);
    const bool is_new = array.is_none() || is_said;
    const bool is_wanted = info.backward.needed || (is_said && truth_from(name.c_str(), array));
    if (is_new && !is_wanted) continue;
    const TensorInfo& primal = primal_of(info);
    if (!(arguments_.*primal.member).present()) {
      fault(name + " is wanted, and there is no " + std::string(primal.name) +
            "; give both, or leave " + name + " out");
    }
    if (nb::isinstance<nb::list>(array) || nb::isinstance<nb::tuple>(array))
      fault(name + " is a list of numbers; give an array, which can be written to, or True");
    Tensor& result = arguments_.*info.member;
    if (is_new) {
      const Description made(info, imported(primal.name), inputs.out_dtype);
      if (outputs == Outputs::imagined) {
        result = made.imagined(info, heads_first_);
        continue;
      }
      array = new_array(like_, made.shape(), made.dtype);
    }
    result = tensor(info, info.name.data(), array);
    check_writable(name, *arrays_[array_count_ - 1]);
    gradients_.push_back({name, array, is_new});
  }
}

const Array& Request::imported(std::string_view name) const {
  const auto at = std::ranges::find(names_, name) - names_.begin();
  return *arrays_[static_cast<std::size_t>(at)];
}

nb::object Request::gradients() {
  static auto& type = *new nb::object(nb::module_::import_("rapt._gradients").attr("Gradients"));
  nb::kwargs results = nb::steal<nb::kwargs>(PyDict_New());
  for (const Gradient& gradient : gradients_) {
    results[gradient.name.c_str()] =
        gradient.is_new ? finished(like_, gradient.array) : gradient.array;
  }
  return type(**results);
}

}  // namespace rapt_python
