// Tensors that a GPU does not reach are refused by name, with a backend that reaches one array.
#include "src/library/placement.hpp"

#include <gtest/gtest.h>

#include <array>
#include <functional>

namespace rapt {
namespace {

std::array<float, 64> on_device, on_host;

bool within_device(const Device&, const void* memory) {
  const auto* begin = reinterpret_cast<const std::byte*>(on_device.data());
  const auto* at = static_cast<const std::byte*>(memory);
  return !std::less<>()(at, begin) && std::less<>()(at, begin + sizeof on_device);
}

constexpr BackendOperations gpu = {
    .backend = Backend::cuda,
    .devices = nullptr,
    .allocate = nullptr,
    .release = nullptr,
    .copy_to_device = nullptr,
    .copy_to_host = nullptr,
    .wait = nullptr,
    .merge = nullptr,
    .reaches = within_device,
};

Tensor tensor(float* data) { return Tensor::dense(data, DType::f32, {1, 4, 2, 1}); }

Device device() {
  Device device;
  device.backend = Backend::cuda;
  device.index = 1;
  return device;
}

Arguments arguments() {
  Arguments arguments;
  arguments.q = tensor(&on_device[0]);
  arguments.k = tensor(&on_device[8]);
  arguments.v = tensor(&on_device[16]);
  arguments.out = tensor(&on_device[24]);
  return arguments;
}

std::string sentence(const Arguments& arguments, std::span<const std::byte> workspace = {}) {
  try {
    check_placement(gpu, device(), arguments, workspace);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "";
}

TEST(Placement, TensorsOnTheDeviceAreTaken) { EXPECT_EQ(sentence(arguments()), ""); }

TEST(Placement, ATensorInHostMemoryIsNamedWithTheDeviceAndTheWayOut) {
  Arguments wrong = arguments();
  wrong.v = tensor(on_host.data());
  EXPECT_EQ(sentence(wrong),
            "v lies in memory that cuda:1 does not reach; copy it to the device first, e.g. into a "
            "rapt::Buffer");
}

TEST(Placement, ATensorAloneIsNamedAsTheCallerNamesIt) {
  EXPECT_NO_THROW(check_placement(gpu, device(), "first.out", tensor(&on_device[0])));
  try {
    check_placement(gpu, device(), "first.out", tensor(on_host.data()));
    FAIL() << "it was taken";
  } catch (const Error& error) {
    EXPECT_TRUE(std::string_view(error.what()).starts_with("first.out lies in memory that cuda:1"));
  }
}

TEST(Placement, IndexDataIsLookedAtToo) {
  Arguments wrong = arguments();
  wrong.kv_lengths = Tensor::dense(on_host.data(), DType::i32, {2, 1, 1, 1});
  EXPECT_TRUE(sentence(wrong).starts_with("kv_lengths lies in memory"));
}

TEST(Placement, TheWorkspaceIsLookedAtToo) {
  EXPECT_TRUE(sentence(arguments(), std::as_bytes(std::span(on_host)))
                  .starts_with("the workspace lies in memory"));
  EXPECT_EQ(sentence(arguments(), std::as_bytes(std::span(on_device))), "");
}

TEST(Placement, ATensorWithoutElementsOrAddressMayBeAnywhere) {
  Arguments empty = arguments();
  empty.page_table = Tensor::dense(nullptr, DType::i32, {2, 3, 1, 1});
  empty.k = Tensor::dense(on_host.data(), DType::f32, {1, 0, 2, 1});
  EXPECT_EQ(sentence(empty), "");
}

}  // namespace
}  // namespace rapt
