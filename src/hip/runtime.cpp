#include "src/hip/runtime.hpp"

#include <optional>
#include <vector>

#include "rapt/rapt.hpp"
#include "src/core/loaded_library.hpp"
#include "src/core/text.hpp"
#include "src/hip/compiled_code.hpp"

namespace rapt::hip {
namespace {

struct Search {
  std::optional<Runtime> functions;
  std::string absence;  // why there are none
};

// The version that rapt was compiled with, then others with the same functions and structs.
std::vector<std::string> library_names() {
  std::vector<std::string> names = {text("libamdhip64.so.", HIP_VERSION_MAJOR)};
  for (const int version : {6, 5}) {
    if (version != HIP_VERSION_MAJOR) names.push_back(text("libamdhip64.so.", version));
  }
  names.push_back("libamdhip64.so");
  return names;
}

// The struct that this one fills has grown: since ROCm 6 its name says which one is meant.
#if HIP_VERSION_MAJOR >= 6
constexpr const char* device_properties = "hipGetDevicePropertiesR0600";
#else
constexpr const char* device_properties = "hipGetDeviceProperties";
#endif

bool find_all(void* library, Runtime& functions) {
  const auto find = [library](const char* name, auto& function) {
    return find_function(library, name, function);
  };
  return find("hipGetErrorName", functions.error_name) &&
         find("hipGetErrorString", functions.error_string) &&
         find("hipGetLastError", functions.last_error) &&
         find("hipGetDeviceCount", functions.device_count) &&
         find(device_properties, functions.device_properties) &&
         find("hipGetDevice", functions.get_device) && find("hipSetDevice", functions.set_device) &&
         find("hipMalloc", functions.allocate) && find("hipFree", functions.release) &&
         find("hipMemGetInfo", functions.memory_left) && find("hipMemcpy", functions.copy) &&
         find("hipMemsetAsync", functions.fill) &&
         find("hipPointerGetAttributes", functions.pointer_attributes) &&
         find("hipStreamCreate", functions.create_stream) &&
         find("hipStreamDestroy", functions.destroy_stream) &&
         find("hipStreamSynchronize", functions.wait_for_stream) &&
         find("hipStreamIsCapturing", functions.is_capturing) &&
         find("hipStreamBeginCapture", functions.begin_capture) &&
         find("hipStreamEndCapture", functions.end_capture) &&
         find("hipEventCreate", functions.create_event) &&
         find("hipEventDestroy", functions.destroy_event) &&
         find("hipEventRecord", functions.record) &&
         find("hipEventSynchronize", functions.wait_for_event) &&
         find("hipEventElapsedTime", functions.milliseconds_between) &&
         find("hipGraphInstantiate", functions.instantiate) &&
         find("hipGraphLaunch", functions.launch_graph) &&
         find("hipGraphDestroy", functions.destroy_graph) &&
         find("hipGraphExecDestroy", functions.destroy_replayable) &&
         find("hipLaunchKernel", functions.launch_kernel);
}

Search load() {
  const std::vector<std::string> names = library_names();
  void* library = load_library(names);
  if (!library) return {{}, text("no HIP runtime: ", cannot_load(names))};
  Runtime functions;
  if (!find_all(library, functions) || !hand_over_code(library))
    return {{}, "the HIP runtime here lacks a function that rapt needs"};
  return {functions, ""};
}

const Search& found() {
  static const Search once = load();
  return once;
}

}  // namespace

const Runtime* find_runtime() { return found().functions ? &*found().functions : nullptr; }

std::string runtime_absence() { return found().absence; }

const Runtime& runtime() {
  if (const Runtime* functions = find_runtime()) return *functions;
  throw Error(ErrorCode::not_found, runtime_absence());
}

}  // namespace rapt::hip
