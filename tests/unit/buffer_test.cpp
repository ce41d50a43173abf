// Buffer: memory on every device of this machine.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "rapt/rapt.hpp"

namespace rapt {
namespace {

TEST(Buffer, BringsBackWhatWasCopiedInOnEveryDeviceHere) {
  for (const Device& device : devices()) {
    std::vector<std::uint8_t> sent(100'003), received(sent.size());
    std::iota(sent.begin(), sent.end(), std::uint8_t{1});
    Buffer buffer(device, sent.size());
    buffer.copy_from_host(sent.data(), sent.size());
    buffer.copy_to_host(received.data(), received.size());
    EXPECT_EQ(sent, received) << device.to_string();
  }
}

TEST(Buffer, MovesItsMemoryAndLeavesNothingBehind) {
  Buffer first(Device::cpu(), 64);
  const void* memory = first.data();
  Buffer second(std::move(first));
  EXPECT_EQ(second.data(), memory);
  EXPECT_EQ(second.size(), 64u);
  first = std::move(second);
  EXPECT_EQ(first.data(), memory);
}

TEST(Buffer, IsAlignedTo64BytesOnTheCpu) {
  for (const std::size_t bytes : {1, 63, 64, 4097}) {
    const Buffer buffer(Device::cpu(), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 64, 0u);
  }
}

TEST(Buffer, RefusesToCopyMoreThanItHolds) {
  Buffer buffer(Device::cpu(), 8);
  char bytes[9] = {};
  EXPECT_THROW(buffer.copy_from_host(bytes, sizeof bytes), Error);
  EXPECT_THROW(buffer.copy_to_host(bytes, sizeof bytes), Error);
}

TEST(Buffer, OfNoBytesHoldsNothing) {
  Buffer buffer(Device::cpu(), 0);
  EXPECT_EQ(buffer.data(), nullptr);
  buffer.copy_from_host(nullptr, 0);
}

TEST(Devices, HaveNamesThatParseBack) {
  for (const Device& device : devices()) {
    EXPECT_EQ(Device::parse(device.to_string()).name, device.name);
    EXPECT_GT(device.nominal.f32_flops, 0);
    EXPECT_GT(device.nominal.read_bandwidth, 0);
  }
}

TEST(Devices, ThatAreNotThereAreNamedInTheError) {
  for (const char* text : {"cuda:99", "hip:99", "emu:99", "gpu", "cpu:1", "cuda:x", ""}) {
    try {
      Device::parse(text);
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(std::string(text).substr(0, 3)), std::string::npos)
          << error.what();
    }
  }
}

}  // namespace
}  // namespace rapt
