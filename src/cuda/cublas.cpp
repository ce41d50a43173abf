#include "src/cuda/cublas.hpp"

#include <dlfcn.h>

#include <optional>

#include "src/core/text.hpp"
#include "src/cuda/check.hpp"

namespace rapt::cuda {
namespace {

// From the version that rapt was compiled with down to the oldest that has the same functions.
constexpr int newest = CUBLAS_VER_MAJOR, oldest = 11;

struct Loaded {
  std::optional<Cublas> functions;
  std::string reason;  // why there are none
};

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

Loaded load() {
  void* library = nullptr;
  for (int version = newest; version >= oldest && !library; --version)
    library = dlopen(text("libcublas.so.", version).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    return {
        {},
        text("neither libcublas.so.", newest, " nor an older one to ", oldest, " can be loaded")};
  }
  Cublas functions;
  const bool complete =
      find(library, "cublasCreate_v2", functions.create) &&
      find(library, "cublasDestroy_v2", functions.destroy) &&
      find(library, "cublasSetStream_v2", functions.set_stream) &&
      find(library, "cublasSetWorkspace_v2", functions.set_workspace) &&
      find(library, "cublasGemmEx", functions.gemm) &&
      find(library, "cublasGemmStridedBatchedEx", functions.gemm_strided_batched) &&
      find(library, "cublasGetStatusString", functions.status_string);
  if (!complete) return {{}, "libcublas lacks a function that rapt needs"};
  return {functions, ""};
}

// The library stays until the process ends.
const Loaded& loaded() {
  static const Loaded once = load();
  return once;
}

}  // namespace

const Cublas* find_cublas() { return loaded().functions ? &*loaded().functions : nullptr; }

std::string cublas_absence() {
  return text("it needs cuBLAS, and ", loaded().reason,
              "; install the CUDA toolkit's libcublas, or name its folder in LD_LIBRARY_PATH");
}

void require(cublasStatus_t status, std::string_view what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  const ErrorCode code =
      status == CUBLAS_STATUS_ALLOC_FAILED ? ErrorCode::out_of_memory : ErrorCode::device_failure;
  throw Error(code, text("cuBLAS could not ", what, ": ", find_cublas()->status_string(status)));
}

CublasHandle::CublasHandle(int device) {
  if (!find_cublas()) throw Error(ErrorCode::unsupported, cublas_absence());
  const UseDevice current(device);
  require(find_cublas()->create(&handle_), "start");
}

CublasHandle::~CublasHandle() { static_cast<void>(find_cublas()->destroy(handle_)); }

}  // namespace rapt::cuda
