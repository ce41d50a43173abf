// What a user of CUDA devices is told, and that the rest goes on working; kernels from many
// threads.
#include <functional>
#include <memory>
#include <thread>

#include "tests/cuda/support.hpp"

namespace rapt::test {
namespace {

std::string sentence_of(ErrorCode code, const std::function<void()>& function) {
  try {
    function();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return "no error";
}

bool cpu_works() {
  const verify::Outcome outcome =
      verify::Case(Problem::parse("b1 h2 s20 d16 f32"), Device::cpu(1), 1).run("cpu.flash");
  return outcome.verdict == verify::Verdict::passed;
}

TEST(CudaDevice, ThatIsNotThereIsASentenceAndTheCpuGoesOn) {
  const std::string sentence = sentence_of(ErrorCode::not_found, [] { Device::cuda(99); });
  EXPECT_EQ(sentence.find("there is no device cuda:99; this machine has "), 0u) << sentence;
  EXPECT_NE(sentence.find("the CPU is always there"), std::string::npos) << sentence;
  EXPECT_TRUE(cpu_works());
}

TEST_F(OnCuda, TensorsInHostMemoryAreRefusedByName) {
  const OneKernel one(Problem::parse("b1 h2 s20 d64 f32"), device, {}, 2);
  const std::string sentence = sentence_of(ErrorCode::invalid_argument, [&] {
    one.plan.run(one.data.on_host(),
                 {.workspace = {one.workspace.on_device(), one.plan.workspace_bytes()}});
  });
  EXPECT_EQ(sentence,
            "q lies in memory that cuda:0 does not reach; copy it to the device first, e.g. into a "
            "rapt::Buffer");
}

TEST_F(OnCuda, TooMuchMemoryIsASentenceAndTheDeviceGoesOn) {
  const std::string sentence =
      sentence_of(ErrorCode::out_of_memory, [&] { Buffer(device, std::size_t{1} << 50); });
  EXPECT_EQ(sentence.find("CUDA could not allocate "), 0u) << sentence;
  EXPECT_NE(sentence.find(" on cuda:0, where "), std::string::npos) << sentence;
  OneKernel one(Problem::parse("b1 h2 s20 d64 f32 lse"), device, {}, 2);
  one.upload();
  one.run(nullptr);
  EXPECT_EQ(one.fault(), "");
}

TEST_F(OnCuda, KernelsGiveTheSameBitsToManyThreadsAtOnce) {
  const Problem problem = Problem::parse("b2 h4/2 q5 kv16 d64 f16 causal lse");
  for (const std::string_view kernel : kernels_for(problem)) {
    std::vector<std::unique_ptr<OneKernel>> each;
    for (int i = 0; i < 4; ++i) {
      each.push_back(
          std::make_unique<OneKernel>(problem, device, PlanOptions{.kernel = kernel}, 2));
      each.back()->upload();
    }
    {
      std::vector<std::jthread> threads;
      for (const auto& one : each) {
        threads.emplace_back([&] {
          for (int i = 0; i < 50; ++i) one->run(nullptr);
        });
      }
    }
    EXPECT_EQ(each[0]->fault(), "") << kernel;
    for (const auto& one : each)
      EXPECT_TRUE(one->data.download() == each[0]->data.download()) << kernel;
  }
}

}  // namespace
}  // namespace rapt::test
