// Arrays of Python's libraries as rapt's tensors, without copying, and new arrays of the library
// that the caller uses. Everything here needs the GIL.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "python/module/dlpack.hpp"
#include "rapt/rapt.hpp"

namespace rapt_python {

namespace nb = nanobind;

// What stands behind a Python type. Arrays are seen through the exchange API where there is one,
// and made by NumPy or as `rapt._libraries` knows.
struct Library {
  const dlpack::ExchangeApi* exchange = nullptr;
  bool numpy = false;
  bool read_only = false;  // arrays must not be written to
  // Functions of rapt._libraries; null for NumPy.
  nb::object empty, stream;
  nb::object finished;  // null: what rapt wrote to is what the caller gets
  nb::object refuse;    // null, or raises what is wrong with an array, if anything is
  // PyTorch's tensors may be more than their memory; null elsewhere. A function, a method, and what
  // is in the module that counts levels.
  nb::object is_grad_enabled, is_negative, forward_mode;
};
const Library& library_of(nb::handle array);

// A Python array, seen but not owned: the caller keeps the object itself alive.
class Array {
 public:
  // `stream`: where work on a GPU will be done; the library makes the data ready there.
  Array(std::string_view name, nb::handle object, void* stream);

  int axes() const { return view_.axes; }
  bool read_only() const { return read_only_; }
  dlpack::Device device() const { return view_.device; }
  rapt::DType dtype() const { return dtype_; }
  // As its library calls it: "int64".
  std::string element_type() const;
  // For an array of another type than rapt takes it in.
  [[noreturn]] void refuse_type(std::string_view name) const;

  // The array as four axes, its own from `first` on; the others have size 1.
  rapt::Tensor tensor(int first) const;

 private:
  nb::object capsule_;  // where there is no exchange API
  dlpack::Tensor view_ = {};
  rapt::DType dtype_ = rapt::DType::none;
  bool read_only_ = false;
};

// `array` must lie on `device`, where the array called `other` lies.
void check_device(std::string_view name, const Array& array, std::string_view other,
                  dlpack::Device device);
// For what a caller gives to be written to.
void check_writable(std::string_view name, const Array& array);

// The device an array lies on, before it is imported.
dlpack::Device device_of(std::string_view name, nb::handle array);
// The stream that its library would work on now; null is the default one, and that of the CPU.
void* current_stream(nb::handle array, dlpack::Device device);

// "cpu", "cuda:0": a device of rapt, looked up once.
const rapt::Device& rapt_device(dlpack::Device device);

dlpack::DataType data_type(rapt::DType dtype);

// A new dense array of the library of `like`, on its device, of f32, u8 or the type of `like`. It
// is what arrays are made from; what the caller gets is finished(): the same object in most
// libraries.
nb::object new_array(nb::handle like, std::span<const std::int64_t> shape, rapt::DType dtype);
nb::object finished(nb::handle like, nb::object array);

// Scratch memory on a GPU, from the allocator of the library of `like`: when it is given back, that
// may use it for later work in the same stream.
class GpuWorkspace {
 public:
  GpuWorkspace(nb::handle like, dlpack::Device device, std::size_t bytes, void* stream);
  ~GpuWorkspace();
  GpuWorkspace(const GpuWorkspace&) = delete;
  GpuWorkspace& operator=(const GpuWorkspace&) = delete;

  std::span<std::byte> bytes() const { return bytes_; }

 private:
  dlpack::VersionedTensor* managed_ = nullptr;  // by the exchange API, which needs no Python object
  nb::object array_;                            // elsewhere
  std::optional<Array> view_;                   // of it
  std::span<std::byte> bytes_;
};

}  // namespace rapt_python
