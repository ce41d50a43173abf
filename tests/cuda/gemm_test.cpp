// cuda.gemm where there may be no GPU: what it says of problems, and what is said where cuBLAS is
// missing.
#include "src/cuda/cublas.hpp"
#include "tests/cuda/support.hpp"

namespace rapt::test {
namespace {

Device imagined_device() {
  Device device = imagined_hopper();
  device.index = 0;  // here, so that cuBLAS must be
  return device;
}

Support support(const char* problem) {
  return find_kernel("cuda.gemm").supports(Problem::parse(problem), imagined_device());
}

TEST(Cublas, ThatCannotBeLoadedIsASentenceWithTheNamesAndTheWayOut) {
  const std::string libraries[] = {"libnothing.so.2", "libnothing.so.1"};
  const cuda::CublasSearch search = cuda::search_cublas(libraries);
  EXPECT_FALSE(search.functions);
  EXPECT_EQ(search.absence,
            "it needs cuBLAS, and none of libnothing.so.2, libnothing.so.1 can be loaded; install "
            "the CUDA toolkit's libcublas, or name its folder in LD_LIBRARY_PATH");
}

TEST(Cublas, ThatIsSomethingElseIsASentenceToo) {
  const std::string libraries[] = {"libnothing.so.2", "libc.so.6"};
  const cuda::CublasSearch search = cuda::search_cublas(libraries);
  EXPECT_FALSE(search.functions);
  EXPECT_NE(search.absence.find("the one here lacks a function"), std::string::npos)
      << search.absence;
}

TEST(CudaGemm, TakesEveryFeatureWhereCublasIsAndElseSaysWhatIsMissing) {
  for (const char* problem :
       {"b1 h16 s2048 d64 f32",
        "b2 h4/2 q3 kv300 d31/77 bf16 causal window64 softcap30 alibi sinks",
        "b3 h8/2 q1 kv700 d128 f16 kv_lengths page16 lse", "b1 h1 s20 d9000 f32 bias:qk mask:k",
        "b4 h2 s60 d64 f32 causal varlen"}) {
    EXPECT_EQ(support(problem).refusal, cuda::find_cublas() ? "" : cuda::cublas_absence());
  }
}

TEST(CudaGemm, TakesProblemsOfAChipThatIsNotHereWithoutCublas) {
  EXPECT_EQ(refusal_of("cuda.gemm", "b1 h16 s2048 d64 f32"), "");
}

TEST(CudaGemm, RefusesWhatItCannotPromiseOrHold) {
  EXPECT_NE(support("b1 h1 s20 d64 f32 batch-invariant").refusal.find("batch-invariant"),
            std::string::npos);
  EXPECT_EQ(support("b1 h1 s1000000 d64 f32").refusal.find("its scores would need "), 0u);
  EXPECT_EQ(support("b1 h1 q1 kv3000000000 d8 f16").refusal,
            "a matrix would have 3e+09 keys; the library takes 2147483647 at most");
}

TEST(CudaGemm, WorksInPassesWhoseScoresTakeAGigabyteAtMost) {
  const Problem problem = Problem::parse("b64 h32/8 s2048 d64 bf16");
  const Device device = imagined_device();
  const Kernel& kernel = find_kernel("cuda.gemm");
  for (const Config& config : kernel.configs(problem, device)) {
    const std::size_t bytes = kernel.workspace({problem, device, config, nullptr});
    EXPECT_LE(bytes, (std::size_t{1} << 30) + (std::size_t{33} << 20)) << config.to_string();
  }
}

}  // namespace
}  // namespace rapt::test
