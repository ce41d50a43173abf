// The functions that the compiler's code calls, under names of rapt's own (cmake/hip.cmake renames
// them in the objects), so that those of a program that is compiled with HIP itself are left alone.
#include "src/hip/compiled_code.hpp"

#include <deque>
#include <vector>

#include "src/core/loaded_library.hpp"
#include "src/hip/runtime.hpp"

namespace rapt::hip {
namespace {

struct Kernel {
  const void* entry;  // by which it is launched
  const char* name;
};

struct File {
  const void* code;  // for all architectures
  std::vector<Kernel> kernels;
};

// Never destroyed: the runtime may have ended before the process does, and keeps the code till
// then.
std::deque<File>& files() {
  static auto* const list = new std::deque<File>;
  return *list;
}

}  // namespace

bool hand_over_code(void* library) {
  void** (*add_code)(const void* code) = nullptr;
  void (*add_kernel)(void** file, const void* entry, const char* name, const char* device_name,
                     unsigned thread_limit, void*, void*, void*, void*, int*) = nullptr;
  if (!find_function(library, "__hipRegisterFatBinary", add_code) ||
      !find_function(library, "__hipRegisterFunction", add_kernel))
    return false;
  constexpr unsigned any_number = -1u;
  for (const File& file : files()) {
    void** added = add_code(file.code);
    for (const Kernel& kernel : file.kernels)
      add_kernel(added, kernel.entry, kernel.name, kernel.name, any_number, nullptr, nullptr,
                 nullptr, nullptr, nullptr);
  }
  return true;
}

}  // namespace rapt::hip

extern "C" {

void** rapt_hip_register_file(const void* code) {
  return reinterpret_cast<void**>(&rapt::hip::files().emplace_back(rapt::hip::File{code, {}}));
}

void rapt_hip_register_kernel(void** file, const void* entry, const char* name, const char*,
                              unsigned, void*, void*, void*, void*, int*) {
  reinterpret_cast<rapt::hip::File*>(file)->kernels.push_back({entry, name});
}

void rapt_hip_unregister_file(void**) {}

hipError_t rapt_hip_launch_kernel(const void* entry, dim3 blocks, dim3 threads, void** arguments,
                                  std::size_t shared_bytes, hipStream_t stream) {
  return rapt::hip::runtime().launch_kernel(entry, blocks, threads, arguments, shared_bytes,
                                            stream);
}

// Of launches in the form of kernel<<<blocks, threads>>>, which rapt never uses.
hipError_t rapt_hip_pop_launch(dim3*, dim3*, std::size_t*, hipStream_t*) {
  return hipErrorNotSupported;
}
}
