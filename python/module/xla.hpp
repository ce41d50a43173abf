// XLA's foreign-function interface as its header xla/ffi/api/c_api.h defines it (version 0), as far
// as rapt uses it: how compiled programs of JAX call a function that is not theirs. Structs begin
// with their size and what extends them, and only grow at their end.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rapt_python::xla {

enum ErrorCode : std::int32_t {
  invalid_argument = 3,
  not_found = 5,
  resource_exhausted = 8,
  unimplemented = 12,
  internal = 13
};
enum DataType : std::int32_t { pred = 1, s32 = 4, f16 = 10, f32 = 11, bf16 = 16 };
enum AttributeType : std::int32_t { string = 4 };
enum ExtensionType : std::int32_t { metadata = 1 };

struct Extension {
  std::size_t struct_size;
  ExtensionType type;
  Extension* next;
};

struct Version {
  std::size_t struct_size;
  Extension* extension;
  int major, minor;
};

struct Error;    // XLA's own
struct Context;  // of one execution

struct ErrorCreate {
  std::size_t struct_size;
  Extension* extension;
  const char* message;
  ErrorCode code;
};

struct StreamGet {
  std::size_t struct_size;
  Extension* extension;
  Context* context;
  void* stream;  // out
};

struct DeviceOrdinalGet {
  std::size_t struct_size;
  Extension* extension;
  Context* context;
  std::int32_t ordinal;  // out
};

struct Api {
  std::size_t struct_size;
  Extension* extension;
  Version version;
  const void* internal_api;
  Error* (*error_create)(ErrorCreate*);
  const void *error_message, *error_destroy, *handler_register;
  Error* (*stream_get)(StreamGet*);
  const void *type_register, *context_get, *state_set, *state_get, *memory_allocate, *memory_free;
  const void *thread_schedule, *thread_count, *future_create, *future_set, *future_fail, *run_id;
  Error* (*device_ordinal_get)(DeviceOrdinalGet*);
};

struct Buffer {
  std::size_t struct_size;
  Extension* extension;
  DataType dtype;
  void* data;
  std::int64_t rank;
  std::int64_t* dims;
};

// Arguments, and results.
struct Buffers {
  std::size_t struct_size;
  Extension* extension;
  std::int64_t size;
  std::int32_t* types;
  Buffer** buffers;
};

struct Text {
  const char* data;
  std::size_t size;
};

struct Attributes {  // by name, in order
  std::size_t struct_size;
  Extension* extension;
  std::int64_t size;
  AttributeType* types;
  Text** names;
  void** values;
};

struct CallFrame {
  std::size_t struct_size;
  Extension* extension;
  const Api* api;
  Context* context;
  std::int32_t stage;
  Buffers arguments, results;
  Attributes attributes;
};

struct Metadata {
  std::size_t struct_size;
  Version version;
  std::uint32_t traits;
};

struct MetadataExtension {
  Extension base;
  Metadata* metadata;
};

using Handler = Error*(CallFrame*);

}  // namespace rapt_python::xla
