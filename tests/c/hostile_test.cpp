// Hostile input through the C API: each fault is a status and a sentence, never a crash. Tensors,
// options and the data that indices are.
#include <cmath>
#include <cstring>
#include <limits>

#include "tests/c/support.hpp"

namespace {

constexpr std::int32_t invalid = RAPT_ERROR_INVALID_ARGUMENT;
constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();

TEST(CApiHostile, the_attention_that_the_other_tests_break_is_right) {
  Attention attention;
  ASSERT_TRUE(succeeds(attention.run()));
  for (const float value : attention.out) ASSERT_FLOAT_EQ(value, 1.0f);
}

TEST(CApiHostile, zero_queries_and_zero_keys_are_valid) {
  Attention no_queries;
  no_queries.arguments.q = dense(nullptr, RAPT_DTYPE_F32, {2, 0, 4, 8});
  no_queries.arguments.out = dense(nullptr, RAPT_DTYPE_F32, {2, 0, 4, 8});
  EXPECT_TRUE(succeeds(no_queries.run()));
  Attention no_keys;
  no_keys.arguments.k = dense(nullptr, RAPT_DTYPE_F32, {2, 0, 2, 8});
  no_keys.arguments.v = dense(nullptr, RAPT_DTYPE_F32, {2, 0, 2, 8});
  EXPECT_TRUE(succeeds(no_keys.run()));
  for (const float value : no_keys.out) ASSERT_EQ(value, 0.0f);
}

TEST(CApiHostile, null_pointers_are_named) {
  Attention attention;
  rapt_plan* plan = nullptr;
  rapt_buffer* buffer = nullptr;
  const rapt_partial partial = {sizeof partial, {}, {}};
  const char* name = nullptr;
  EXPECT_TRUE(fails(rapt_attention(nullptr, nullptr, nullptr), invalid, "arguments is null"));
  EXPECT_TRUE(fails(rapt_arguments_init(nullptr, 8), invalid, "arguments is null"));
  EXPECT_TRUE(fails(rapt_options_init(nullptr, 8), invalid, "options is null"));
  EXPECT_TRUE(fails(rapt_executor_init(nullptr, 8), invalid, "executor is null"));
  EXPECT_TRUE(fails(rapt_plan_options_init(nullptr, 8), invalid, "plan_options is null"));
  EXPECT_TRUE(fails(rapt_launch_init(nullptr, 8), invalid, "launch is null"));
  EXPECT_TRUE(fails(rapt_partial_init(nullptr, 8), invalid, "partial is null"));
  EXPECT_TRUE(fails(rapt_merge_options_init(nullptr, 8), invalid, "merge_options is null"));
  EXPECT_TRUE(fails(rapt_tensor_dense(nullptr, nullptr, 1, 0, nullptr), invalid, "tensor is null"));
  EXPECT_TRUE(fails(rapt_tensor_dense(&attention.arguments.q, nullptr, 1, 2, nullptr), invalid,
                    "size is null"));
  EXPECT_TRUE(fails(rapt_tensor_transposed(nullptr, &attention.arguments.q, 0, 1), invalid,
                    "result is null"));
  EXPECT_TRUE(fails(rapt_tensor_transposed(&attention.arguments.q, nullptr, 0, 1), invalid,
                    "tensor is null"));
  EXPECT_TRUE(fails(rapt_plan_create(&attention.arguments, nullptr, nullptr, nullptr, nullptr),
                    invalid, "plan is null"));
  EXPECT_TRUE(fails(rapt_plan_create_from_problem(nullptr, nullptr, nullptr, &plan), invalid,
                    "problem is null"));
  EXPECT_TRUE(
      fails(rapt_plan_run(nullptr, &attention.arguments, nullptr), invalid, "plan is null"));
  EXPECT_TRUE(fails(rapt_plan_workspace_bytes(nullptr, nullptr), invalid, "plan is null"));
  EXPECT_TRUE(fails(rapt_plan_kernel(nullptr, &name), invalid, "plan is null"));
  EXPECT_TRUE(fails(rapt_plan_config(nullptr, nullptr, 0, nullptr), invalid, "plan is null"));
  EXPECT_TRUE(fails(rapt_plan_problem(nullptr, nullptr, 0, nullptr), invalid, "plan is null"));
  EXPECT_TRUE(
      fails(rapt_problem_of(nullptr, nullptr, nullptr, 0, nullptr), invalid, "arguments is null"));
  EXPECT_TRUE(
      fails(rapt_explain(nullptr, nullptr, nullptr, 0, nullptr), invalid, "problem is null"));
  EXPECT_TRUE(fails(rapt_check(nullptr, nullptr, nullptr), invalid, "arguments is null"));
  EXPECT_TRUE(
      fails(rapt_merge(nullptr, &partial, &partial, nullptr, nullptr), invalid, "first is null"));
  EXPECT_TRUE(
      fails(rapt_merge(&partial, nullptr, &partial, nullptr, nullptr), invalid, "second is null"));
  EXPECT_TRUE(
      fails(rapt_merge(&partial, &partial, nullptr, nullptr, nullptr), invalid, "result is null"));
  EXPECT_TRUE(fails(rapt_buffer_create(nullptr, 8, nullptr), invalid, "buffer is null"));
  EXPECT_TRUE(fails(rapt_buffer_data(nullptr, nullptr), invalid, "buffer is null"));
  ASSERT_TRUE(succeeds(rapt_buffer_create(nullptr, 8, &buffer)));
  EXPECT_TRUE(fails(rapt_buffer_data(buffer, nullptr), invalid, "data is null"));
  EXPECT_TRUE(fails(rapt_buffer_copy_from_host(buffer, nullptr, 8), invalid, "source is null"));
  EXPECT_TRUE(fails(rapt_buffer_copy_to_host(buffer, nullptr, 8), invalid, "target is null"));
  EXPECT_TRUE(fails(rapt_kernel_name(0, nullptr), invalid, "name is null"));
  EXPECT_TRUE(fails(rapt_kernel_backend(0, nullptr), invalid, "backend is null"));
  EXPECT_TRUE(fails(rapt_device_count(nullptr), invalid, "count is null"));
  EXPECT_TRUE(fails(rapt_device_name(0, nullptr, 8, nullptr), invalid, "buffer is null"));
  rapt_buffer_destroy(buffer);
}

TEST(CApiHostile, null_tensors_with_elements_are_named) {
  Attention attention;
  attention.arguments.v.data = nullptr;
  EXPECT_TRUE(fails(attention.run(), invalid, "v's data is null"));
}

TEST(CApiHostile, misaligned_tensors_and_structs_are_refused) {
  Attention attention;
  attention.arguments.k.data = reinterpret_cast<char*>(attention.k.data()) + 1;
  EXPECT_TRUE(fails(attention.run(), invalid, "k's address is not aligned"));
  alignas(rapt_options) char bytes[sizeof(rapt_options) + 1] = {};
  const auto* options = reinterpret_cast<const rapt_options*>(bytes + 1);
  EXPECT_TRUE(fails(rapt_attention(&attention.arguments, options, nullptr), invalid,
                    "options's address is not aligned to 8 bytes"));
}

TEST(CApiHostile, misaligned_lse_and_index_tensors_are_refused) {
  Attention attention;
  alignas(8) char memory[128] = {};
  attention.arguments.lse = dense(memory + 2, RAPT_DTYPE_F32, {2, 4, 3});
  EXPECT_TRUE(fails(attention.run(), invalid, "lse's address is not aligned"));
  attention.arguments.lse = {};
  attention.arguments.kv_lengths = dense(memory + 2, RAPT_DTYPE_I32, {2});
  EXPECT_TRUE(fails(attention.run(), invalid, "kv_lengths's address is not aligned"));
}

TEST(CApiHostile, negative_sizes_are_refused) {
  for (const std::int64_t size : {std::int64_t{-1}, least}) {
    Attention attention;
    attention.arguments.q.size[1] = size;
    EXPECT_TRUE(fails(attention.run(), invalid, "q has an axis of size -"));
  }
  Attention attention;
  const std::int64_t sizes[2] = {3, -3};
  EXPECT_TRUE(fails(rapt_tensor_dense(&attention.arguments.q, attention.q.data(), 1, 2, sizes),
                    invalid, "size[1] is -3"));
}

TEST(CApiHostile, sizes_whose_product_overflows_are_refused) {
  Attention attention;
  for (rapt_tensor* tensor : {&attention.arguments.q, &attention.arguments.out}) {
    tensor->size[0] = tensor->size[1] = std::int64_t{1} << 40;
  }
  EXPECT_TRUE(fails(attention.run(), invalid, "overflows 64 bits"));
  const std::int64_t sizes[2] = {most, most};
  EXPECT_TRUE(fails(rapt_tensor_dense(&attention.arguments.q, attention.q.data(), 1, 2, sizes),
                    invalid, "overflows 64 bits"));
}

TEST(CApiHostile, strides_that_reach_too_far_or_backwards_are_refused) {
  Attention attention;
  attention.arguments.k.stride[0] = most;
  EXPECT_TRUE(fails(attention.run(), invalid, "spans more bytes than 64-bit indexing reaches"));
  attention.arguments.k.stride[0] = -64;
  EXPECT_TRUE(fails(attention.run(), invalid, "strides must be 0 or more"));
  Attention scattered;
  scattered.arguments.v.stride[3] = 2;
  EXPECT_TRUE(fails(scattered.run(), invalid, "v's last axis has stride 2"));
  Attention overlapping;
  overlapping.arguments.out.stride[1] = 0;
  EXPECT_TRUE(fails(overlapping.run(), invalid, "out overlaps itself"));
}

TEST(CApiHostile, page_table_strides_that_overflow_are_refused) {
  Attention attention;
  const std::vector<std::int32_t> table = {0, 1, 2, 3};
  attention.page(table);
  attention.arguments.page_table.stride[0] = most;
  EXPECT_TRUE(fails(attention.run(), invalid, "elements spans more bytes"));
}

TEST(CApiHostile, starts_with_no_room_for_a_batch_are_refused) {
  const std::vector<std::int32_t> q_starts = {0, 3, 6}, kv_starts = {0, 4, 8};
  Attention attention;
  attention.pack(q_starts, kv_starts);
  attention.arguments.q_starts.size[0] = 0;
  EXPECT_TRUE(fails(attention.run(), invalid, "batch is -1"));
  attention.arguments.q_starts.size[0] = least;
  EXPECT_TRUE(fails(attention.run(), invalid, "q_starts has an axis of size -"));
}

TEST(CApiHostile, unknown_and_wrong_dtypes_are_named) {
  Attention attention;
  attention.arguments.k.dtype = 99;
  EXPECT_TRUE(fails(attention.run(), invalid, "k's dtype is 99"));
  attention.arguments.k.dtype = -1;
  EXPECT_TRUE(fails(attention.run(), invalid, "k's dtype is -1"));
  attention.arguments.k.dtype = RAPT_DTYPE_F16;
  EXPECT_TRUE(fails(attention.run(), invalid, "k is f16; the problem wants f32"));
  Attention integers;
  for (rapt_tensor* tensor : {&integers.arguments.q, &integers.arguments.k, &integers.arguments.v,
                              &integers.arguments.out}) {
    tensor->dtype = RAPT_DTYPE_I32;
  }
  EXPECT_TRUE(fails(integers.run(), invalid, "must be f32, f16 or bf16"));
  EXPECT_TRUE(fails(rapt_tensor_dense(&attention.arguments.q, nullptr, RAPT_DTYPE_NONE, 0, nullptr),
                    invalid, "dtype is 0"));
}

TEST(CApiHostile, missing_and_half_given_tensors_are_named) {
  Attention attention;
  attention.arguments.out = {};
  EXPECT_TRUE(fails(attention.run(), invalid, "out is missing"));
  Attention half;
  half.arguments.lse.data = half.out.data();
  EXPECT_TRUE(fails(half.run(), invalid, "lse has data but no dtype"));
}

TEST(CApiHostile, page_tables_that_point_outside_the_pool_are_refused) {
  for (const std::int32_t page : {-1, 4, std::numeric_limits<std::int32_t>::max()}) {
    Attention attention;
    const std::vector<std::int32_t> table = {0, 1, page, 3};
    attention.page(table);
    const std::string part = "page_table[1][0] is " + std::to_string(page);
    EXPECT_TRUE(fails(attention.run(), invalid, part));
    EXPECT_TRUE(
        fails(rapt_check(&attention.arguments, &attention.options, nullptr), invalid, part));
  }
}

TEST(CApiHostile, page_table_entries_past_a_length_are_not_read) {
  Attention attention;
  const std::vector<std::int32_t> table = {0, -7, 2, 1 << 30};
  const std::vector<std::int32_t> lengths = {2, 1};
  attention.page(table);
  attention.arguments.kv_lengths = dense(lengths.data(), RAPT_DTYPE_I32, {2});
  EXPECT_TRUE(succeeds(attention.run()));
}

TEST(CApiHostile, starts_that_go_backwards_or_too_far_are_refused) {
  const std::vector<std::int32_t> right_q = {0, 3, 6}, right_kv = {0, 4, 8};
  const std::vector<std::int32_t> backwards = {0, 5, 3}, far = {0, 3, 7}, negative = {-1, 3, 6};
  Attention attention;
  attention.pack(right_q, right_kv);
  EXPECT_TRUE(succeeds(attention.run()));
  attention.pack(backwards, right_kv);
  EXPECT_TRUE(fails(attention.run(), invalid, "q_starts goes backwards: q_starts[2] is 3 after 5"));
  attention.pack(far, right_kv);
  EXPECT_TRUE(fails(attention.run(), invalid, "q_starts[2] is 7; the packed tensor has 6 rows"));
  attention.pack(negative, right_kv);
  EXPECT_TRUE(fails(attention.run(), invalid, "q_starts[0] is -1"));
  attention.pack(right_q, backwards);
  EXPECT_TRUE(fails(attention.run(), invalid, "kv_starts goes backwards"));
}

TEST(CApiHostile, a_bound_far_above_the_packed_queries_costs_nothing) {
  const std::vector<std::int32_t> q_starts = {0, 3, 6}, kv_starts = {0, 4, 8};
  Attention attention;
  attention.pack(q_starts, kv_starts);
  attention.options.has_max_q_len = 1;
  attention.options.max_q_len = std::int64_t{1} << 40;  // a loop over it would never end
  ASSERT_TRUE(succeeds(attention.run()));
  for (const float value : attention.out) ASSERT_FLOAT_EQ(value, 1.0f);
}

TEST(CApiHostile, lengths_out_of_range_are_refused) {
  for (const std::int32_t length : {-1, 5}) {
    Attention attention;
    const std::vector<std::int32_t> lengths = {4, length};
    attention.arguments.kv_lengths = dense(lengths.data(), RAPT_DTYPE_I32, {2});
    EXPECT_TRUE(fails(attention.run(), invalid, "kv_lengths[1] is " + std::to_string(length)));
  }
}

TEST(CApiHostile, scales_and_soft_caps_that_are_not_finite_are_refused) {
  for (const float value : {NAN, INFINITY, -INFINITY}) {
    Attention attention;
    attention.options.has_scale = 1;
    attention.options.scale = value;
    EXPECT_TRUE(fails(attention.run(), invalid, "the scale is")) << value;
    Attention capped;
    capped.options.softcap = value;
    EXPECT_TRUE(fails(capped.run(), invalid, "the soft cap is")) << value;
  }
  Attention capped;
  capped.options.softcap = -1;
  EXPECT_TRUE(fails(capped.run(), invalid, "the soft cap is -1"));
}

TEST(CApiHostile, a_probability_is_below_one_and_wants_a_seed) {
  for (const double value : {-0.5, 1.0, 1e300, static_cast<double>(NAN)}) {
    Attention attention;
    attention.options.dropout = value;
    EXPECT_TRUE(fails(attention.run(), invalid, "the dropout is")) << value;
  }
  Attention attention;
  attention.options.dropout = 0.5;
  EXPECT_TRUE(fails(attention.run(), invalid, "seed is missing"));
}

TEST(CApiHostile, a_scale_may_be_zero_or_negative) {
  for (const float value : {0.0f, -1.0f}) {
    Attention attention;
    attention.options.has_scale = 1;
    attention.options.scale = value;
    EXPECT_EQ(attention.run(), RAPT_OK) << value;
  }
}

TEST(CApiHostile, flags_are_0_or_1_and_values_need_theirs) {
  Attention attention;
  attention.options.causal = 2;
  EXPECT_TRUE(fails(attention.run(), invalid, "options.causal is 2"));
  Attention has;
  has.options.has_offset = -1;
  EXPECT_TRUE(fails(has.run(), invalid, "options.has_offset is -1"));
  Attention forgotten;
  forgotten.options.window_left = 128;
  EXPECT_TRUE(fails(forgotten.run(), invalid, "options.window_left is 128 but"));
}

TEST(CApiHostile, bounds_out_of_range_are_refused) {
  Attention attention;
  attention.options.has_window_left = 1;
  attention.options.window_left = -1;
  EXPECT_TRUE(fails(attention.run(), invalid, "the window's left bound is -1"));
  Attention first;
  first.options.window_first_keys = 4;
  EXPECT_TRUE(fails(first.run(), invalid, "4 first keys stand beside a window without a left"));
  Attention shifted;
  shifted.options.has_offset = 1;
  shifted.options.offset = least;
  EXPECT_TRUE(fails(shifted.run(), invalid, "the offset is -9223372036854775808"));
}

TEST(CApiHostile, merging_with_wrong_options_is_refused) {
  Attention attention;
  std::vector<float> lse(2 * 4 * 3);
  const rapt_partial partial = {sizeof partial, attention.arguments.out,
                                dense(lse.data(), 1, {2, 4, 3})};
  rapt_merge_options options = {};
  EXPECT_TRUE(fails(rapt_merge(&partial, &partial, &partial, nullptr, &options), invalid,
                    "merge_options's struct_size is 0"));
  EXPECT_TRUE(succeeds(rapt_merge_options_init(&options, sizeof options)));
  rapt_executor executor = {};
  options.executor = &executor;
  EXPECT_TRUE(fails(rapt_merge(&partial, &partial, &partial, nullptr, &options), invalid,
                    "executor's struct_size is 0"));
}

TEST(CApiHostile, merging_what_does_not_fit_together_is_refused) {
  Attention attention;
  std::vector<float> lse(2 * 4 * 3);
  const rapt_partial right = {sizeof right, attention.arguments.out,
                              dense(lse.data(), 1, {2, 4, 3})};
  EXPECT_TRUE(succeeds(rapt_merge(&right, &right, &right, nullptr, nullptr)));
  rapt_partial wrong = right;
  wrong.lse = dense(lse.data(), 1, {2, 3, 4});
  EXPECT_TRUE(
      fails(rapt_merge(&right, &wrong, &right, nullptr, nullptr), invalid, "second.lse has sizes"));
  wrong = right;
  wrong.out.size[0] = -2;
  EXPECT_TRUE(
      fails(rapt_merge(&wrong, &right, &right, nullptr, nullptr), invalid, "negative size"));
  wrong = right;
  wrong.lse.dtype = 99;
  EXPECT_TRUE(fails(rapt_merge(&right, &right, &wrong, nullptr, nullptr), invalid,
                    "result.lse's dtype is"));
  wrong = right;
  wrong.out.data = nullptr;
  EXPECT_TRUE(
      fails(rapt_merge(&right, &right, &wrong, nullptr, nullptr), invalid, "result.out's data is"));
  wrong = right;
  wrong.out.stride[1] = 0;
  EXPECT_TRUE(fails(rapt_merge(&right, &right, &wrong, nullptr, nullptr), invalid,
                    "result.out overlaps itself"));
}

}  // namespace
