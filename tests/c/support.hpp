// A small, right attention in C structs, for tests that break one thing about it.
#pragma once

#include <gtest/gtest.h>
#include <rapt/rapt.h>

#include <array>
#include <initializer_list>
#include <string>
#include <vector>

// The status of a failing call, and what its sentence must contain.
inline testing::AssertionResult fails(std::int32_t status, std::int32_t expected,
                                      const std::string& part) {
  const std::string sentence = rapt_last_error();
  if (status == expected && sentence.find(part) != std::string::npos)
    return testing::AssertionSuccess();
  return testing::AssertionFailure() << "status " << status << ", expected " << expected
                                     << "\nsentence: " << sentence << "\nexpected in it: " << part;
}

inline testing::AssertionResult succeeds(std::int32_t status) {
  if (status == RAPT_OK) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "status " << status << ": " << rapt_last_error();
}

inline rapt_tensor dense(const void* data, std::int32_t dtype,
                         std::initializer_list<std::int64_t> size) {
  rapt_tensor tensor = {};
  EXPECT_TRUE(succeeds(rapt_tensor_dense(&tensor, data, dtype,
                                         static_cast<std::int32_t>(size.size()), size.begin())));
  return tensor;
}

// Two sequences of three queries and four keys, four heads sharing two, dim 8, f32.
struct Attention {
  std::vector<float> q = std::vector<float>(2 * 3 * 4 * 8, 0.5f);
  std::vector<float> k = std::vector<float>(2 * 4 * 2 * 8, 0.25f);
  std::vector<float> v = std::vector<float>(2 * 4 * 2 * 8, 1.0f);
  std::vector<float> out = std::vector<float>(2 * 3 * 4 * 8, -1.0f);
  rapt_arguments arguments = {};
  rapt_options options = {};

  Attention() {
    rapt_arguments_init(&arguments, sizeof arguments);
    rapt_options_init(&options, sizeof options);
    arguments.q = dense(q.data(), RAPT_DTYPE_F32, {2, 3, 4, 8});
    arguments.k = dense(k.data(), RAPT_DTYPE_F32, {2, 4, 2, 8});
    arguments.v = dense(v.data(), RAPT_DTYPE_F32, {2, 4, 2, 8});
    arguments.out = dense(out.data(), RAPT_DTYPE_F32, {2, 3, 4, 8});
  }
  Attention(const Attention&) = delete;
  Attention& operator=(const Attention&) = delete;

  std::int32_t run() const { return rapt_attention(&arguments, &options, nullptr); }

  // The same memory as one packed batch: 6 queries and 8 keys.
  void pack(const std::vector<std::int32_t>& q_starts, const std::vector<std::int32_t>& kv_starts) {
    arguments.q = dense(q.data(), RAPT_DTYPE_F32, {1, 6, 4, 8});
    arguments.k = dense(k.data(), RAPT_DTYPE_F32, {1, 8, 2, 8});
    arguments.v = dense(v.data(), RAPT_DTYPE_F32, {1, 8, 2, 8});
    arguments.out = dense(out.data(), RAPT_DTYPE_F32, {1, 6, 4, 8});
    arguments.q_starts =
        dense(q_starts.data(), RAPT_DTYPE_I32, {static_cast<std::int64_t>(q_starts.size())});
    arguments.kv_starts =
        dense(kv_starts.data(), RAPT_DTYPE_I32, {static_cast<std::int64_t>(kv_starts.size())});
  }

  // The same keys as a pool of four pages of two tokens, two pages a sequence.
  void page(const std::vector<std::int32_t>& table) {
    arguments.k = dense(k.data(), RAPT_DTYPE_F32, {4, 2, 2, 8});
    arguments.v = dense(v.data(), RAPT_DTYPE_F32, {4, 2, 2, 8});
    arguments.page_table = dense(table.data(), RAPT_DTYPE_I32, {2, 2});
  }
};

// A plan for an attention, and the status of making it.
struct PlanHandle {
  rapt_plan* plan = nullptr;
  std::int32_t status;

  explicit PlanHandle(const Attention& attention, const rapt_plan_options* options = nullptr,
                      const char* device = nullptr)
      : status(rapt_plan_create(&attention.arguments, &attention.options, device, options, &plan)) {
  }
  ~PlanHandle() { rapt_plan_destroy(plan); }
  PlanHandle(const PlanHandle&) = delete;
  PlanHandle& operator=(const PlanHandle&) = delete;

  std::size_t workspace_bytes() const {
    std::size_t bytes = 0;
    EXPECT_TRUE(succeeds(rapt_plan_workspace_bytes(plan, &bytes)));
    return bytes;
  }
};

// A workspace in rapt's own memory.
struct Workspace {
  rapt_buffer* buffer = nullptr;
  rapt_launch launch = {};

  explicit Workspace(std::size_t bytes) {
    rapt_launch_init(&launch, sizeof launch);
    EXPECT_TRUE(succeeds(rapt_buffer_create(nullptr, bytes, &buffer)));
    EXPECT_TRUE(succeeds(rapt_buffer_data(buffer, &launch.workspace)));
    launch.workspace_bytes = bytes;
  }
  ~Workspace() { rapt_buffer_destroy(buffer); }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
};
