#include "python/module/array.hpp"

#include <nanobind/stl/string.h>

#include <map>
#include <string>
#include <vector>

#include "python/module/fault.hpp"
#include "python/module/values.hpp"

namespace rapt_python {
namespace {

using rapt::DType;

const dlpack::ExchangeApi* find_exchange(nb::handle type) {
  if (!nb::hasattr(type, "__dlpack_c_exchange_api__")) return nullptr;
  const nb::object capsule = type.attr("__dlpack_c_exchange_api__");
  auto* api = static_cast<const dlpack::ExchangeApi*>(
      PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
  if (api == nullptr) PyErr_Clear();
  while (api != nullptr && api->version.major != 1) api = api->older;
  return api != nullptr && api->borrow != nullptr ? api : nullptr;
}

Library find_library(nb::handle type) {
  const nb::object module = type.attr("__module__");
  Library library;
  library.exchange = find_exchange(type);
  library.numpy = !library.exchange && utf8_of(module) == "numpy";
  if (library.numpy) return library;
  const nb::object adapter = nb::module_::import_("rapt._libraries").attr("adapter")(type);
  library.empty = adapter.attr("empty");
  library.stream = adapter.attr("stream");
  if (nb::hasattr(adapter, "finished")) library.finished = adapter.attr("finished");
  library.read_only = nb::hasattr(adapter, "read_only");
  if (nb::hasattr(adapter, "refuse")) library.refuse = adapter.attr("refuse");
  if (nb::hasattr(adapter, "forward_mode")) {
    library.is_grad_enabled = adapter.attr("is_grad_enabled");
    library.is_negative = adapter.attr("is_negative");
    library.forward_mode = adapter.attr("forward_mode");
  }
  return library;
}

DType dtype_of(dlpack::DataType type) {
  if (type.lanes != 1) return DType::none;
  if (type.code == dlpack::float_ && type.bits == 32) return DType::f32;
  if (type.code == dlpack::float_ && type.bits == 16) return DType::f16;
  if (type.code == dlpack::bfloat && type.bits == 16) return DType::bf16;
  if (type.code == dlpack::int_ && type.bits == 32) return DType::i32;
  if (type.code == dlpack::int_ && type.bits == 64) return DType::i64;
  if (type.code == dlpack::bool_ || type.code == dlpack::uint_)
    return type.bits == 8 ? DType::u8 : DType::none;
  return DType::none;
}

std::string text_of(dlpack::DataType type) {
  if (type.code == dlpack::bool_) return "bool";
  const char* kind = type.code == dlpack::int_       ? "int"
                     : type.code == dlpack::uint_    ? "uint"
                     : type.code == dlpack::float_   ? "float"
                     : type.code == dlpack::complex_ ? "complex"
                                                     : "of type code ";
  return kind + (type.code <= dlpack::float_ || type.code == dlpack::complex_
                     ? std::to_string(type.bits)
                     : std::to_string(type.code));
}

// A device of rapt by backend and index, whether or not this build has it.
using Place = std::pair<rapt::Backend, std::int32_t>;

Place place_of(dlpack::Device device) {
  switch (device.type) {
    case dlpack::cpu:
    case dlpack::cuda_host:
    case dlpack::rocm_host: return {rapt::Backend::cpu, 0};
    case dlpack::cuda:
    case dlpack::cuda_managed: return {rapt::Backend::cuda, device.index};
    case dlpack::rocm: return {rapt::Backend::hip, device.index};
    default:
      fault("the arrays lie on a device of DLPack's type ", std::to_string(device.type),
            "; rapt computes on CPUs, CUDA and ROCm devices: copy them there first");
  }
}

std::string text_of(const Place& place) {
  rapt::Device device;
  device.backend = place.first;
  device.index = place.second;
  return device.to_string();
}

// Whether a tensor of PyTorch may be more than its memory: a part of a graph of gradients, a dual
// number while there is a level of them, or minus what lies there.
bool may_be_more_than_memory(const Library& library, nb::handle tensor) {
  struct Names {
    nb::object requires_grad = nb::steal(PyUnicode_InternFromString("requires_grad"));
    nb::object level = nb::steal(PyUnicode_InternFromString("_current_level"));
  };
  static auto& names = *new Names;
  const nb::handle level = PyDict_GetItem(library.forward_mode.ptr(), names.level.ptr());
  return !level.is_valid() || nb::cast<int>(level) >= 0 ||
         (nb::cast<bool>(nb::getattr(tensor, names.requires_grad)) &&
          nb::cast<bool>(library.is_grad_enabled())) ||
         nb::cast<bool>(library.is_negative(tensor));
}

nb::tuple tuple_of(std::span<const std::int64_t> numbers) {
  nb::object tuple = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(numbers.size())));
  for (std::size_t i = 0; i < numbers.size(); ++i)
    PyTuple_SetItem(tuple.ptr(), static_cast<Py_ssize_t>(i), PyLong_FromLongLong(numbers[i]));
  return nb::borrow<nb::tuple>(tuple);
}

// NumPy's arrays of ml_dtypes.bfloat16 are not DLPack's; their bits are.
bool is_numpy_bfloat16(nb::handle array) {
  return std::string_view(nb::str(array.attr("dtype").attr("name")).c_str()) == "bfloat16";
}

nb::object capsule_of(nb::handle array, std::int32_t device_type, void* stream) {
  const bool on_cpu = device_type == dlpack::cpu || device_type == dlpack::cuda_host ||
                      device_type == dlpack::rocm_host;
  // DLPack writes CUDA's default stream as 1, ROCm's as 0.
  const auto address = reinterpret_cast<std::uintptr_t>(stream);
  const std::uintptr_t none = device_type == dlpack::rocm ? 0 : 1;
  const nb::object stream_number =
      on_cpu ? nb::none() : nb::object(nb::int_(address ? address : none));
  const nb::object method = array.attr("__dlpack__");
  static auto& version = *new nb::object(nb::make_tuple(1, 0));
  try {
    return on_cpu ? method(nb::arg("max_version") = version)
                  : method(nb::arg("max_version") = version, nb::arg("stream") = stream_number);
  } catch (nb::python_error& error) {  // a library that does not know versions
    if (!error.matches(PyExc_TypeError)) throw;
  }
  return on_cpu ? method() : method(nb::arg("stream") = stream_number);
}

// For an array that its library does not show: a sentence of rapt's where that has one, else the
// library's own error.
[[noreturn]] void refuse_hidden(const Library& library, std::string_view name, nb::handle array,
                                const nb::python_error& error) {
  if (library.refuse.is_valid()) library.refuse(nb::str(name.data(), name.size()), array);
  throw error;
}

dlpack::Tensor borrowed(const Library& library, std::string_view name, nb::handle array) {
  dlpack::Tensor view;
  if (library.exchange->borrow(array.ptr(), &view) != 0)
    refuse_hidden(library, name, array, nb::python_error());
  return view;
}

dlpack::VersionedTensor* allocate(const dlpack::ExchangeApi& exchange, dlpack::Device device,
                                  std::int64_t bytes) {
  dlpack::Tensor prototype{nullptr, device, 1, data_type(DType::u8), &bytes, nullptr, 0};
  dlpack::VersionedTensor* made = nullptr;
  std::string message;
  const auto remember = [](void* context, const char*, const char* text) {
    *static_cast<std::string*>(context) = text;
  };
  if (exchange.allocate(&prototype, &made, &message, remember) != 0)
    throw rapt::Error(rapt::ErrorCode::out_of_memory, message);
  return made;
}

}  // namespace

dlpack::DataType data_type(DType dtype) {
  const auto bits = static_cast<std::uint8_t>(8 * size_in_bytes(dtype));
  const auto code = dtype == DType::bf16                         ? dlpack::bfloat
                    : dtype == DType::u8                         ? dlpack::uint_
                    : dtype == DType::i32 || dtype == DType::i64 ? dlpack::int_
                                                                 : dlpack::float_;
  return {code, bits, 1};
}

const Library& library_of(nb::handle array) {
  // Types live as long as the process here; a handful at most.
  static auto& known = *new std::vector<std::pair<nb::object, Library>>;
  const nb::handle type = array.type();
  for (const auto& [seen, library] : known) {
    if (seen.is(type)) return library;
  }
  known.reserve(64);
  if (known.size() == known.capacity()) known.clear();
  known.emplace_back(nb::borrow(type), find_library(type));
  return known.back().second;
}

Array::Array(std::string_view name, nb::handle object, void* stream) {
  const Library& library = library_of(object);
  if (library.forward_mode.is_valid() && may_be_more_than_memory(library, object))
    library.refuse(nb::str(name.data(), name.size()), object);
  read_only_ = library.read_only;
  if (library.exchange) {
    view_ = borrowed(library, name, object);
    dtype_ = dtype_of(view_.dtype);
  } else {
    bool bits_only = false;
    try {
      const auto device = library.numpy ? dlpack::cpu : device_of(name, object).type;
      capsule_ = capsule_of(object, device, stream);
    } catch (nb::python_error& error) {
      if (!nb::hasattr(object, "__dlpack__")) {
        fault(
            name, " is ", kind_of(object),
            "; rapt takes arrays that speak DLPack, such as NumPy's, PyTorch's, JAX's and CuPy's");
      }
      if (!library.numpy || !is_numpy_bfloat16(object)) refuse_hidden(library, name, object, error);
      bits_only = true;
      capsule_ = capsule_of(object.attr("view")("uint16"), dlpack::cpu, nullptr);
    }
    if (PyCapsule_IsValid(capsule_.ptr(), "dltensor_versioned")) {
      const auto* managed = static_cast<dlpack::VersionedTensor*>(
          PyCapsule_GetPointer(capsule_.ptr(), "dltensor_versioned"));
      view_ = managed->tensor;
      read_only_ = read_only_ || (managed->flags & dlpack::read_only) != 0;
    } else {
      const auto* managed =
          static_cast<dlpack::ManagedTensor*>(PyCapsule_GetPointer(capsule_.ptr(), "dltensor"));
      if (managed == nullptr) throw nb::python_error();
      view_ = managed->tensor;
    }
    dtype_ = bits_only ? DType::bf16 : dtype_of(view_.dtype);
  }
  if (dtype_ == DType::none) refuse_type(name);
  if (view_.axes > 4) fault(name, " has ", std::to_string(view_.axes), " axes; 4 are the most");
}

std::string Array::element_type() const { return text_of(view_.dtype); }

void Array::refuse_type(std::string_view name) const {
  fault(name, " is ", element_type(),
        "; rapt computes in float32, float16 and bfloat16, and takes lengths, starts, page tables "
        "and seeds as integers, masks as bool: convert it first");
}

rapt::Tensor Array::tensor(int first) const {
  rapt::Tensor tensor{
      static_cast<std::byte*>(view_.data) + view_.byte_offset, dtype_, {1, 1, 1, 1}, {1, 1, 1, 1}};
  std::int64_t dense = 1;
  for (int axis = view_.axes; axis-- > 0;) {
    const auto at = static_cast<std::size_t>(first + axis);
    tensor.size[at] = view_.shape[axis];
    tensor.stride[at] = view_.strides ? view_.strides[axis] : dense;
    dense *= view_.shape[axis];
  }
  return tensor;
}

void check_device(std::string_view name, const Array& array, std::string_view other,
                  dlpack::Device device) {
  const Place here = place_of(array.device()), wanted = place_of(device);
  if (here == wanted) return;
  fault(name, " lies on ", text_of(here), " and ", other, " on ", text_of(wanted),
        "; copy one of them to the other's device first");
}

void check_writable(std::string_view name, const Array& array) {
  if (array.read_only()) fault(name, " is read-only; give an array that can be written to");
}

dlpack::Device device_of(std::string_view name, nb::handle array) {
  const Library& library = library_of(array);
  if (library.numpy || (!library.exchange && !nb::hasattr(array, "__dlpack_device__")))
    return {dlpack::cpu, 0};
  if (library.exchange) return borrowed(library, name, array).device;
  try {
    const auto pair = nb::cast<nb::tuple>(array.attr("__dlpack_device__")());
    return {nb::cast<std::int32_t>(nb::int_(pair[0])), nb::cast<std::int32_t>(nb::int_(pair[1]))};
  } catch (nb::python_error& error) {
    refuse_hidden(library, name, array, error);
  }
}

void* current_stream(nb::handle array, dlpack::Device device) {
  if (rapt_device(device).backend == rapt::Backend::cpu) return nullptr;
  const Library& library = library_of(array);
  if (library.exchange) {
    void* stream = nullptr;
    if (library.exchange->current_stream(device.type, device.index, &stream) != 0)
      throw nb::python_error();
    return stream;
  }
  const auto address = nb::cast<std::uintptr_t>(library.stream(array));
  return reinterpret_cast<void*>(address);
}

const rapt::Device& rapt_device(dlpack::Device device) {
  static auto& known = *new std::map<Place, rapt::Device>;
  const Place place = place_of(device);
  const auto [at, is_new] = known.try_emplace(place);
  if (is_new) {
    try {
      at->second = place.first == rapt::Backend::cuda  ? rapt::Device::cuda(place.second)
                   : place.first == rapt::Backend::hip ? rapt::Device::hip(place.second)
                                                       : rapt::Device::cpu();
    } catch (...) {
      known.erase(at);
      throw;
    }
  }
  return at->second;
}

nb::object new_array(nb::handle like, std::span<const std::int64_t> shape, DType dtype) {
  const Library& library = library_of(like);
  const nb::tuple sizes = tuple_of(shape);
  if (library.numpy) {
    struct NumPy {
      nb::object empty, f32, u8;
    };
    static auto& numpy = *[] {
      const nb::module_ module = nb::module_::import_("numpy");
      const nb::object type = module.attr("dtype");
      return new NumPy{module.attr("empty"), type("float32"), type("uint8")};
    }();
    return numpy.empty(sizes, dtype == DType::f32  ? numpy.f32
                              : dtype == DType::u8 ? numpy.u8
                                                   : nb::object(like.attr("dtype")));
  }
  return library.empty(like, sizes, std::string(rapt::name(dtype)));
}

GpuWorkspace::GpuWorkspace(nb::handle like, dlpack::Device device, std::size_t bytes,
                           void* stream) {
  if (bytes == 0) return;
  const Library& library = library_of(like);
  const auto size = static_cast<std::int64_t>(bytes);
  void* data = nullptr;
  if (library.exchange) {
    managed_ = allocate(*library.exchange, device, size);
    data = static_cast<std::byte*>(managed_->tensor.data) + managed_->tensor.byte_offset;
  } else {
    array_ = new_array(like, {&size, 1}, DType::u8);
    data = view_.emplace("the workspace", array_, stream).tensor(0).data;
  }
  bytes_ = {static_cast<std::byte*>(data), bytes};
}

GpuWorkspace::~GpuWorkspace() {
  if (managed_ && managed_->deleter) managed_->deleter(managed_);
}

nb::object finished(nb::handle like, nb::object array) {
  const Library& library = library_of(like);
  return library.finished.is_valid() ? library.finished(array) : array;
}

}  // namespace rapt_python
