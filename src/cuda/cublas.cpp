#include "src/cuda/cublas.hpp"

#include <map>
#include <vector>

#include "src/core/loaded_library.hpp"
#include "src/core/text.hpp"
#include "src/cuda/check.hpp"

namespace rapt::cuda {
namespace {

// From the version that rapt was compiled with down to the oldest that has the same functions.
constexpr int newest = CUBLAS_VER_MAJOR, oldest = 11;

CublasSearch search_known_versions() {
  std::vector<std::string> libraries;
  for (int version = newest; version >= oldest; --version)
    libraries.push_back(text("libcublas.so.", version));
  return search_cublas(libraries);
}

const CublasSearch& found() {
  static const CublasSearch once = search_known_versions();
  return once;
}

struct SharedHandle {
  std::mutex mutex;
  std::optional<CublasHandle> handle;
};

// Handles are never given back: CUDA may have ended before the process does.
SharedHandle& shared_handle(int device) {
  static std::mutex mutex;
  static auto* const handles = new std::map<int, SharedHandle>;
  const std::lock_guard lock(mutex);
  return (*handles)[device];
}

}  // namespace

CublasSearch search_cublas(std::span<const std::string> libraries) {
  const auto absent = [](std::string_view reason) {
    return CublasSearch{{},
                        text("it needs cuBLAS, and ", reason,
                             "; install the CUDA toolkit's libcublas, or name its folder in "
                             "LD_LIBRARY_PATH")};
  };
  void* library = load_library(libraries);
  if (!library) return absent(cannot_load(libraries));
  Cublas functions;
  const bool complete =
      find_function(library, "cublasCreate_v2", functions.create) &&
      find_function(library, "cublasDestroy_v2", functions.destroy) &&
      find_function(library, "cublasSetStream_v2", functions.set_stream) &&
      find_function(library, "cublasSetWorkspace_v2", functions.set_workspace) &&
      find_function(library, "cublasGemmEx", functions.gemm) &&
      find_function(library, "cublasGemmStridedBatchedEx", functions.gemm_strided_batched) &&
      find_function(library, "cublasGetStatusString", functions.status_string);
  if (!complete) return absent("the one here lacks a function that rapt needs");
  return {functions, ""};
}

const Cublas* find_cublas() { return found().functions ? &*found().functions : nullptr; }

std::string cublas_absence() { return found().absence; }

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

void prepare_cublas(int device) {
  SharedHandle& shared = shared_handle(device);
  const std::lock_guard lock(shared.mutex);
  if (!shared.handle) shared.handle.emplace(device);
}

LentCublas::LentCublas(int device, cudaStream_t stream, std::span<std::byte> workspace)
    : lock_(shared_handle(device).mutex), handle_(*shared_handle(device).handle) {
  // A new stream would bring back cuBLAS's own memory, so it comes first.
  require(find_cublas()->set_stream(handle_, stream), "use a stream");
  require(find_cublas()->set_workspace(handle_, workspace.data(), workspace.size()),
          "use a workspace");
}

}  // namespace rapt::cuda
