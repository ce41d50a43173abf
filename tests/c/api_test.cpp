// The conventions of the C API: sized structs, text out, plans by name, lent threads, workspaces,
// and hostile use of each.
#include <algorithm>
#include <climits>
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/c/support.hpp"

extern "C" const char* use_every_function(void);

namespace {

constexpr std::int32_t invalid = RAPT_ERROR_INVALID_ARGUMENT;

TEST(CApi, a_c_program_can_use_every_function) {
  const char* fault = use_every_function();
  EXPECT_EQ(fault, nullptr) << fault;
}

#if RAPT_VERSION_MAJOR * 10000 + RAPT_VERSION_MINOR * 100 + RAPT_VERSION_PATCH < 100
#error "the headers are older than the first version"
#endif

TEST(CApi, the_headers_have_the_version_that_the_build_gives_the_library) {
  const std::string version = std::to_string(RAPT_VERSION_MAJOR) + "." +
                              std::to_string(RAPT_VERSION_MINOR) + "." +
                              std::to_string(RAPT_VERSION_PATCH);
  EXPECT_EQ(version, rapt_version());
}

TEST(CApiStructs, sizes_that_were_never_set_are_refused) {
  Attention attention;
  for (const std::size_t size : {std::size_t{0}, std::size_t{3}, std::size_t{0xCDCDCDCDCDCDCDCD}}) {
    attention.options.struct_size = size;
    EXPECT_TRUE(
        fails(attention.run(), invalid, "options's struct_size is " + std::to_string(size)));
  }
  EXPECT_TRUE(fails(rapt_options_init(&attention.options, 0), invalid, "struct_size is 0"));
  EXPECT_TRUE(fails(rapt_options_init(&attention.options, 1 << 20), invalid, "struct_size is"));
  Attention headless;
  headless.arguments.struct_size = sizeof(std::size_t);
  EXPECT_TRUE(fails(headless.run(), invalid, "arguments's struct_size is 8"));
}

TEST(CApiStructs, an_older_and_smaller_struct_works_and_is_read_no_further) {
  Attention attention;
  attention.options.struct_size = offsetof(rapt_options, window_left);
  attention.options.causal = 1;
  attention.options.window_left = 12345;  // lies outside what the caller's version has
  char problem[100];
  ASSERT_TRUE(succeeds(
      rapt_problem_of(&attention.arguments, &attention.options, problem, sizeof problem, nullptr)));
  EXPECT_STREQ(problem, "b2 h4/2 q3 kv4 d8 f32 causal");

  Attention without_first_keys;
  without_first_keys.options.struct_size = offsetof(rapt_options, window_first_keys);
  without_first_keys.options.has_window_left = 1;
  without_first_keys.options.window_left = 2;
  without_first_keys.options.window_first_keys = 1;  // lies outside, too
  ASSERT_TRUE(succeeds(rapt_problem_of(&without_first_keys.arguments, &without_first_keys.options,
                                       problem, sizeof problem, nullptr)));
  EXPECT_STREQ(problem, "b2 h4/2 q3 kv4 d8 f32 window2");
  without_first_keys.options.struct_size = sizeof(rapt_options);
  ASSERT_TRUE(succeeds(rapt_problem_of(&without_first_keys.arguments, &without_first_keys.options,
                                       problem, sizeof problem, nullptr)));
  EXPECT_STREQ(problem, "b2 h4/2 q3 kv4 d8 f32 window2+1");

  // On the heap and of its own size, so that the sanitizer sees a read past its end.
  const std::size_t size = offsetof(rapt_arguments, lse);
  std::vector<std::size_t> older(size / sizeof(std::size_t));
  std::memcpy(older.data(), &attention.arguments, size);
  older[0] = size;
  EXPECT_TRUE(succeeds(
      rapt_attention(reinterpret_cast<const rapt_arguments*>(older.data()), nullptr, nullptr)));
}

TEST(CApiStructs, init_writes_no_further_than_the_caller_s_size) {
  std::vector<std::size_t> older(2, 77);
  ASSERT_TRUE(succeeds(
      rapt_options_init(reinterpret_cast<rapt_options*>(older.data()), sizeof(std::size_t))));
  EXPECT_EQ(older[0], sizeof(std::size_t));
  EXPECT_EQ(older[1], 77u);
}

TEST(CApiStructs, a_newer_and_larger_struct_works_while_its_new_fields_are_zero) {
  Attention attention;
  struct {
    rapt_options options;
    std::int64_t added;
  } newer = {};
  ASSERT_TRUE(succeeds(rapt_options_init(&newer.options, sizeof newer)));
  EXPECT_TRUE(succeeds(rapt_attention(&attention.arguments, &newer.options, nullptr)));
  newer.added = 1;
  EXPECT_TRUE(fails(rapt_attention(&attention.arguments, &newer.options, nullptr), invalid,
                    "use a newer rapt"));
}

TEST(CApiStructs, partial_results_may_grow) {
  float out = 1, lse = 0;
  struct {
    rapt_partial partial;
    std::int64_t added;
  } newer = {};
  ASSERT_TRUE(succeeds(rapt_partial_init(&newer.partial, sizeof newer)));
  newer.partial.out = dense(&out, RAPT_DTYPE_F32, {1, 1, 1, 1});
  newer.partial.lse = dense(&lse, RAPT_DTYPE_F32, {1, 1, 1});
  rapt_partial partial = newer.partial;
  partial.struct_size = sizeof partial;
  EXPECT_TRUE(succeeds(rapt_merge(&newer.partial, &partial, &partial, nullptr, nullptr)));
  newer.added = 1;
  EXPECT_TRUE(fails(rapt_merge(&newer.partial, &partial, &partial, nullptr, nullptr), invalid,
                    "use a newer rapt"));
  partial.struct_size = 0;
  EXPECT_TRUE(fails(rapt_merge(&partial, &partial, &partial, nullptr, nullptr), invalid,
                    "'s struct_size is 0"));
}

TEST(CApiStructs, an_older_caller_s_device_properties_are_filled_no_further_than_its_size) {
  rapt_device_properties properties;
  std::memset(static_cast<void*>(&properties), 0x5a, sizeof properties);
  const std::size_t older = offsetof(rapt_device_properties, f32_flops);
  ASSERT_EQ(rapt_device_properties_init(&properties, older), RAPT_OK);
  ASSERT_EQ(rapt_device_describe(nullptr, &properties), RAPT_OK);
  EXPECT_EQ(properties.struct_size, older);
  EXPECT_GE(properties.threads, 1);
  EXPECT_EQ(static_cast<unsigned char>(properties.chip[0]), 0x5a);
  properties.struct_size = 0;
  EXPECT_TRUE(fails(rapt_device_describe("cpu", &properties), invalid, "struct_size is 0"));
}

TEST(CApiStructs, sizes_are_told_by_name) {
  const std::pair<const char*, std::size_t> sizes[] = {
      {"rapt_tensor", sizeof(rapt_tensor)},
      {"rapt_arguments", sizeof(rapt_arguments)},
      {"rapt_executor", sizeof(rapt_executor)},
      {"rapt_plan_options", sizeof(rapt_plan_options)},
      {"rapt_launch", sizeof(rapt_launch)},
      {"rapt_partial", sizeof(rapt_partial)},
      {"rapt_merge_options", sizeof(rapt_merge_options)},
      {"rapt_device_properties", sizeof(rapt_device_properties)}};
  std::size_t size = 0;
  for (const auto& [name, expected] : sizes) {
    ASSERT_EQ(rapt_struct_size(name, &size), RAPT_OK) << name;
    EXPECT_EQ(size, expected) << name;
  }
  EXPECT_TRUE(fails(rapt_struct_size("options", &size), invalid, "there is no struct 'options'"));
}

TEST(CApiText, small_buffers_get_what_fits_and_the_size_that_would_do) {
  Attention attention;
  const std::string whole = "b2 h4/2 q3 kv4 d8 f32";
  const auto write = [&](char* buffer, std::size_t capacity, std::size_t* needed) {
    return rapt_problem_of(&attention.arguments, nullptr, buffer, capacity, needed);
  };
  std::size_t needed = 0;
  ASSERT_TRUE(succeeds(write(nullptr, 0, &needed)));
  EXPECT_EQ(needed, whole.size() + 1);
  for (std::size_t capacity = 1; capacity <= whole.size() + 2; ++capacity) {
    std::vector<char> buffer(capacity, '?');
    ASSERT_TRUE(succeeds(write(buffer.data(), capacity, nullptr)));
    EXPECT_EQ(std::string(buffer.data()), whole.substr(0, capacity - 1));
  }
  EXPECT_TRUE(fails(write(nullptr, 5, &needed), invalid, "buffer is null but capacity is 5"));
}

TEST(CApiText, a_cut_leaves_utf8_characters_whole) {
  std::size_t needed = 0;
  ASSERT_TRUE(succeeds(rapt_explain("b1 h1 s2 d4 f32", nullptr, nullptr, 0, &needed)));
  std::string whole(needed, '?');
  ASSERT_TRUE(succeeds(rapt_explain("b1 h1 s2 d4 f32", nullptr, whole.data(), needed, nullptr)));
  const std::size_t micro = whole.find("µ");
  ASSERT_NE(micro, std::string::npos) << whole;
  std::string cut(micro + 2, '?');  // room for one of its two bytes, and the zero
  ASSERT_TRUE(succeeds(rapt_explain("b1 h1 s2 d4 f32", nullptr, cut.data(), cut.size(), nullptr)));
  EXPECT_EQ(std::string(cut.c_str()), whole.substr(0, micro));
}

TEST(CApiErrors, each_thread_has_its_own_last_error) {
  Attention attention;
  attention.options.causal = 7;
  ASSERT_EQ(attention.run(), invalid);
  std::string elsewhere = "?";
  std::thread([&] { elsewhere = rapt_last_error(); }).join();
  EXPECT_EQ(elsewhere, "");
  EXPECT_NE(std::string(rapt_last_error()).find("causal is 7"), std::string::npos);
}

TEST(CApiPlan, unknown_kernels_and_configs_are_refused) {
  Attention attention;
  rapt_plan_options options;
  rapt_plan_options_init(&options, sizeof options);
  options.kernel = "cpu.nonesuch";
  EXPECT_TRUE(fails(PlanHandle(attention, &options).status, RAPT_ERROR_NOT_FOUND,
                    "there is no kernel 'cpu.nonesuch'; there are cpu.oracle"));
  options.kernel = nullptr;
  options.config = "tile";
  EXPECT_TRUE(fails(PlanHandle(attention, &options).status, invalid, "cannot read 'tile'"));
  options.config = "tile=99999999999999999999";
  EXPECT_TRUE(fails(PlanHandle(attention, &options).status, invalid, "cannot read 'tile="));
  options.kernel = "cpu.naive";
  options.config = "nonesuch=1";
  EXPECT_TRUE(
      fails(PlanHandle(attention, &options).status, invalid, "has no config key 'nonesuch'"));
}

TEST(CApiPlan, the_config_reads_back_as_it_was_asked_for) {
  Attention attention;
  rapt_plan_options options;
  rapt_plan_options_init(&options, sizeof options);
  options.kernel = "cpu.split_kv";
  for (const char* config : {"chunk=256", "chunk=1024"}) {
    options.config = config;
    const PlanHandle handle(attention, &options);
    ASSERT_TRUE(succeeds(handle.status));
    char text[40];
    std::size_t needed = 0;
    ASSERT_TRUE(succeeds(rapt_plan_config(handle.plan, text, sizeof text, &needed)));
    EXPECT_STREQ(text, config);
    EXPECT_EQ(needed, std::strlen(config) + 1);
  }
}

TEST(CApiPlan, a_workspace_limit_is_kept) {
  Attention attention;
  rapt_plan_options options;
  rapt_plan_options_init(&options, sizeof options);
  options.kernel = "cpu.naive";
  options.has_workspace_limit = 1;
  options.workspace_limit = PlanHandle(attention).workspace_bytes() + (1 << 20);
  EXPECT_TRUE(succeeds(PlanHandle(attention, &options).status));
  options.workspace_limit = 0;
  EXPECT_TRUE(fails(PlanHandle(attention, &options).status, RAPT_ERROR_UNSUPPORTED,
                    "bytes of workspace, and the limit is 0"));
  options.has_workspace_limit = 0;
  EXPECT_TRUE(succeeds(PlanHandle(attention, &options).status));
  options.workspace_limit = 5;
  EXPECT_TRUE(fails(PlanHandle(attention, &options).status, invalid,
                    "plan_options.workspace_limit is 5 but plan_options.has_workspace_limit is 0"));
}

TEST(CApiPlan, a_failed_creation_leaves_a_null_plan) {
  Attention attention;
  attention.arguments.q.dtype = 99;
  auto* plan = reinterpret_cast<rapt_plan*>(&attention);
  EXPECT_EQ(rapt_plan_create(&attention.arguments, nullptr, nullptr, nullptr, &plan), invalid);
  EXPECT_EQ(plan, nullptr);
}

TEST(CApiPlan, bad_devices_are_refused) {
  Attention attention;
  EXPECT_TRUE(fails(PlanHandle(attention, nullptr, "").status, invalid, "'' is not a device"));
  EXPECT_TRUE(
      fails(PlanHandle(attention, nullptr, "gpu:0").status, invalid, "'gpu:0' is not a device"));
  EXPECT_TRUE(fails(PlanHandle(attention, nullptr, "cpu:1").status, invalid, "is not a device"));
  EXPECT_TRUE(
      fails(PlanHandle(attention, nullptr, "cuda:99999").status, RAPT_ERROR_NOT_FOUND, "cuda"));
  EXPECT_TRUE(fails(rapt_explain("b1 h1 s1 d1", "cuda:-1", nullptr, 0, nullptr),
                    RAPT_ERROR_NOT_FOUND, "cuda"));
}

TEST(CApiPlan, bad_problem_strings_are_refused) {
  rapt_plan* plan = nullptr;
  EXPECT_TRUE(fails(rapt_plan_create_from_problem("b1 h1 s2 d4 nonesuch", nullptr, nullptr, &plan),
                    invalid, "cannot read 'nonesuch' at character 13"));
  EXPECT_TRUE(fails(rapt_plan_create_from_problem("", nullptr, nullptr, &plan), invalid,
                    "the problem is incomplete"));
}

TEST(CApiPlan, arguments_of_another_problem_are_refused) {
  Attention attention;
  const PlanHandle handle(attention);
  ASSERT_TRUE(succeeds(handle.status));
  const Workspace workspace(handle.workspace_bytes());
  ASSERT_TRUE(succeeds(rapt_plan_run(handle.plan, &attention.arguments, &workspace.launch)));
  attention.arguments.k.size[1] = 3;
  EXPECT_TRUE(fails(rapt_plan_run(handle.plan, &attention.arguments, &workspace.launch), invalid,
                    "k's seq axis has size 3; the problem wants 4"));
}

TEST(CApiPlan, short_missing_and_misaligned_workspaces_are_refused) {
  const Attention attention;
  rapt_plan_options options;
  ASSERT_TRUE(succeeds(rapt_plan_options_init(&options, sizeof options)));
  options.kernel = "cpu.naive";
  const PlanHandle handle(attention, &options);
  ASSERT_TRUE(succeeds(handle.status));
  const std::size_t bytes = handle.workspace_bytes();
  ASSERT_GT(bytes, 0u);
  const Workspace workspace(bytes + 64);
  const auto run = [&](const rapt_launch* launch) {
    return rapt_plan_run(handle.plan, &attention.arguments, launch);
  };
  rapt_launch launch = workspace.launch;
  EXPECT_TRUE(succeeds(run(&launch)));
  EXPECT_TRUE(fails(run(nullptr), invalid, "the workspace has 0 bytes"));
  launch.workspace_bytes = bytes - 1;
  EXPECT_TRUE(fails(run(&launch), invalid, "the workspace has " + std::to_string(bytes - 1)));
  launch.workspace_bytes = bytes;
  launch.workspace = static_cast<char*>(workspace.launch.workspace) + 4;
  EXPECT_TRUE(fails(run(&launch), invalid, "the workspace is not aligned to 64 bytes"));
  launch.workspace = nullptr;
  EXPECT_TRUE(fails(run(&launch), invalid, "launch.workspace is null"));
}

// An executor that deals indices out to two threads, and remembers which threads ran.
struct TwoThreads {
  std::set<std::thread::id> ids;

  static void parallel_for(void* context, std::int64_t count, void (*body)(void*, std::int64_t),
                           void* body_context) {
    std::thread::id used[2];
    const auto odd_or_even = [&](std::int64_t first) {
      used[first] = std::this_thread::get_id();
      for (std::int64_t index = first; index < count; index += 2) body(body_context, index);
    };
    std::thread one(odd_or_even, 0), other(odd_or_even, 1);
    one.join();
    other.join();
    static_cast<TwoThreads*>(context)->ids.insert(std::begin(used), std::end(used));
  }
};

rapt_executor executor_of(decltype(rapt_executor::parallel_for) parallel_for,
                          void* context = nullptr) {
  rapt_executor executor;
  EXPECT_TRUE(succeeds(rapt_executor_init(&executor, sizeof executor)));
  executor.parallel_for = parallel_for;
  executor.context = context;
  executor.concurrency = 2;
  return executor;
}

// The status of making and running a plan with an executor; the executor itself is gone when the
// plan runs, for plans copy it.
std::int32_t run_with(const Attention& attention, rapt_executor executor) {
  rapt_plan_options options;
  EXPECT_TRUE(succeeds(rapt_plan_options_init(&options, sizeof options)));
  options.kernel = "cpu.naive";
  options.executor = &executor;
  const PlanHandle handle(attention, &options);
  if (handle.status != RAPT_OK) return handle.status;
  executor = {};
  const Workspace workspace(handle.workspace_bytes());
  return rapt_plan_run(handle.plan, &attention.arguments, &workspace.launch);
}

TEST(CApiExecutor, lent_threads_do_the_work) {
  const Attention attention;
  TwoThreads threads;
  ASSERT_TRUE(succeeds(run_with(attention, executor_of(TwoThreads::parallel_for, &threads))));
  EXPECT_GE(threads.ids.size(), 2u);
  EXPECT_FALSE(threads.ids.contains(std::this_thread::get_id()));
  for (const float value : attention.out) ASSERT_FLOAT_EQ(value, 1.0f);
}

TEST(CApiExecutor, executors_with_wrong_fields_are_refused) {
  const Attention attention;
  rapt_executor executor = executor_of(TwoThreads::parallel_for);
  executor.concurrency = 0;
  EXPECT_TRUE(fails(run_with(attention, executor), invalid, "concurrency is 0"));
  executor.concurrency = INT_MAX;
  EXPECT_TRUE(fails(run_with(attention, executor), invalid, "1024"));
  executor = executor_of(nullptr);
  EXPECT_TRUE(fails(run_with(attention, executor), invalid, "parallel_for is null"));
  executor = executor_of(TwoThreads::parallel_for);
  executor.reserved = 1;
  EXPECT_TRUE(fails(run_with(attention, executor), invalid, "reserved is 1"));
  executor.struct_size = 0;
  EXPECT_TRUE(fails(run_with(attention, executor), invalid, "executor's struct_size is 0"));
  executor.struct_size = offsetof(rapt_executor, concurrency);
  EXPECT_TRUE(fails(run_with(attention, executor), invalid, "a multiple of 8 from 32 to"));
}

TEST(CApiExecutor, executors_that_leave_indices_out_or_make_them_up_are_reported) {
  const Attention attention;
  const auto lazy = [](void*, std::int64_t, void (*)(void*, std::int64_t), void*) {};
  EXPECT_TRUE(fails(run_with(attention, executor_of(lazy)), invalid, "ran 0 of 2 indices"));
  const auto wild = [](void*, std::int64_t count, void (*body)(void*, std::int64_t), void* work) {
    for (std::int64_t index = -1; index <= count; ++index) body(work, index);
  };
  EXPECT_TRUE(fails(run_with(attention, executor_of(wild)), invalid, "that do not exist"));
}

TEST(CApiBuffer, copies_that_do_not_fit_are_refused) {
  const Workspace workspace(16);
  char bytes[17] = {};
  EXPECT_TRUE(fails(rapt_buffer_copy_from_host(workspace.buffer, bytes, 17), invalid,
                    "cannot copy 17 bytes into a buffer of 16"));
  EXPECT_TRUE(fails(rapt_buffer_copy_to_host(workspace.buffer, bytes, 17), invalid,
                    "cannot copy 17 bytes out of a buffer of 16"));
}

TEST(CApiBuffer, more_memory_than_there_is_is_refused) {
  rapt_buffer* buffer = nullptr;
  for (const std::size_t bytes : {SIZE_MAX, SIZE_MAX / 2, std::size_t{1} << 60}) {
    EXPECT_TRUE(fails(rapt_buffer_create(nullptr, bytes, &buffer), RAPT_ERROR_OUT_OF_MEMORY,
                      "no memory for"));
    EXPECT_EQ(buffer, nullptr);
  }
}

TEST(CApiLists, indices_out_of_range_are_refused) {
  std::int32_t kernels = 0;
  const char* name = nullptr;
  ASSERT_TRUE(succeeds(rapt_kernel_count(&kernels)));
  EXPECT_TRUE(fails(rapt_kernel_name(kernels, &name), invalid, "there are"));
  EXPECT_TRUE(fails(rapt_kernel_name(-1, &name), invalid, "index is -1"));
  EXPECT_TRUE(fails(rapt_device_name(INT_MAX, nullptr, 0, nullptr), invalid, "devices"));
}

TEST(CApiTensor, axes_out_of_range_are_refused) {
  rapt_tensor tensor = {};
  const std::int64_t sizes[5] = {1, 1, 1, 1, 1};
  EXPECT_TRUE(fails(rapt_tensor_dense(&tensor, nullptr, 1, 5, sizes), invalid, "axes is 5"));
  EXPECT_TRUE(fails(rapt_tensor_transposed(&tensor, &tensor, 0, 4), invalid, "axes 0 and 4"));
}

}  // namespace
