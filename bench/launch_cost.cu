// What launches by themselves cost the host: an empty kernel with as many bytes of parameters as
// rapt's kernels have, alone and after a fill of four bytes. bench/plan_cost.cpp times whole runs.
//
//   nvcc -O2 -std=c++20 -arch=native bench/launch_cost.cu -o launch_cost && ./launch_cost
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include <cuda_runtime.h>

template <int bytes>
struct Parameters {
  alignas(64) char data[bytes];
};

template <int bytes>
__global__ void empty(const __grid_constant__ Parameters<bytes> parameters) {}

template <class Call>
void print(const char* what, Call call) {
  std::vector<double> times;
  for (int round = 0; round < 41; ++round) {
    cudaDeviceSynchronize();
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 100; ++i) call();
    const std::chrono::duration<double, std::micro> elapsed =
        std::chrono::steady_clock::now() - start;
    times.push_back(elapsed.count() / 100);
  }
  std::sort(times.begin(), times.end());
  std::printf("%-44s %7.3f (%.3f)\n", what, times[times.size() / 2], times.front());
}

template <int bytes>
void launch() {
  static const Parameters<bytes> parameters = {};
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(1);
  config.blockDim = dim3(128);
  cudaLaunchKernelEx(&config, empty<bytes>, parameters);
}

int main() {
  int* counter = nullptr;
  cudaMalloc(&counter, sizeof(int));
  std::printf("microseconds on the host: median (least)\n");
  print("launch, 704 bytes", [] { launch<704>(); });
  print("launch, 1344 bytes", [] { launch<1344>(); });
  print("two launches, 704 bytes", [] { launch<704>(), launch<704>(); });
  print("fill and launch, 1344 bytes", [=] {
    cudaMemsetAsync(counter, 0, sizeof(int));
    launch<1344>();
  });
}
