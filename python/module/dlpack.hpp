// DLPack as its header defines it (version 1): how Python's array libraries show each other their
// memory. A library hands out capsules with `__dlpack__()`; one that has the exchange API also
// offers C functions that do the same without a Python call, and make new arrays.
#pragma once

#include <cstdint>

namespace rapt_python::dlpack {

enum DeviceType : std::int32_t {
  cpu = 1,
  cuda = 2,
  cuda_host = 3,
  rocm = 10,
  rocm_host = 11,
  cuda_managed = 13
};
enum TypeCode : std::uint8_t {
  int_ = 0,
  uint_ = 1,
  float_ = 2,
  bfloat = 4,
  complex_ = 5,
  bool_ = 6
};

struct Device {
  std::int32_t type;
  std::int32_t index;
};

struct DataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};

struct Tensor {
  void* data;
  Device device;
  std::int32_t axes;
  DataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements; null: dense
  std::uint64_t byte_offset;
};

struct Version {
  std::uint32_t major, minor;
};

struct ManagedTensor {  // capsule "dltensor"
  Tensor tensor;
  void* context;
  void (*deleter)(ManagedTensor*);
};

constexpr std::uint64_t read_only = 1;

struct VersionedTensor {  // capsule "dltensor_versioned"
  Version version;
  void* context;
  void (*deleter)(VersionedTensor*);
  std::uint64_t flags;
  Tensor tensor;
};

// Type attribute `__dlpack_c_exchange_api__`, capsule "dlpack_exchange_api". Functions return 0, or
// -1 with a Python exception set.
struct ExchangeApi {
  Version version;
  ExchangeApi* older;
  int (*allocate)(Tensor* prototype, VersionedTensor** out, void* error_context,
                  void (*set_error)(void* error_context, const char* kind, const char* message));
  int (*managed_from_object)(void* object, VersionedTensor** out);
  int (*object_from_managed)(VersionedTensor* stolen, void** object);
  int (*borrow)(void* object, Tensor* out);  // may be null
  int (*current_stream)(std::int32_t device_type, std::int32_t device_index, void** stream);
};

}  // namespace rapt_python::dlpack
