/* A C11 program that uses every function of rapt.h, so that compiling it proves the header to be C.
 * Two tokens see each other's values through equal keys: the result is known without a reference.
 */
#include <math.h>
#include <rapt/rapt.h>
#include <string.h>

#define SAY(text) #text
#define LINE(number) SAY(number)
#define EXPECT(condition)                                                                    \
  do {                                                                                       \
    if (!(condition)) return "every_function.c:" LINE(__LINE__) ": not so: " SAY(condition); \
  } while (0)

/* 2 tokens, 1 head, dim 4. Equal keys: each query weighs the keys it sees equally. */
static float q[8], k[8], v[8], out[8], lse[2];
static const int64_t size[4] = {1, 2, 1, 4};
static const int64_t lse_size[3] = {1, 1, 2};

static int close_to(float value, float expected) { return fabsf(value - expected) < 1e-6f; }

static const char* fill(rapt_arguments* arguments) {
  for (int i = 0; i < 8; ++i) {
    q[i] = k[i] = 0;
    v[i] = i < 4 ? 1.0f : 3.0f;
    out[i] = -1;
  }
  EXPECT(rapt_arguments_init(arguments, sizeof *arguments) == RAPT_OK);
  EXPECT(arguments->struct_size == sizeof *arguments);
  EXPECT(rapt_tensor_dense(&arguments->q, q, RAPT_DTYPE_F32, 4, size) == RAPT_OK);
  EXPECT(rapt_tensor_dense(&arguments->k, k, RAPT_DTYPE_F32, 4, size) == RAPT_OK);
  EXPECT(rapt_tensor_dense(&arguments->v, v, RAPT_DTYPE_F32, 4, size) == RAPT_OK);
  EXPECT(rapt_tensor_dense(&arguments->out, out, RAPT_DTYPE_F32, 4, size) == RAPT_OK);
  EXPECT(rapt_tensor_dense(&arguments->lse, lse, RAPT_DTYPE_F32, 3, lse_size) == RAPT_OK);
  return NULL;
}

static const char* tensors(void) {
  const int64_t bhsd[4] = {2, 3, 5, 7};
  rapt_tensor tensor;
  EXPECT(rapt_tensor_dense(&tensor, q, RAPT_DTYPE_BF16, 4, bhsd) == RAPT_OK);
  EXPECT(tensor.data == q && tensor.dtype == RAPT_DTYPE_BF16);
  EXPECT(tensor.stride[0] == 105 && tensor.stride[1] == 35 && tensor.stride[3] == 1);
  EXPECT(rapt_tensor_transposed(&tensor, &tensor, 1, 2) == RAPT_OK);
  EXPECT(tensor.size[1] == 5 && tensor.size[2] == 3);
  EXPECT(tensor.stride[1] == 7 && tensor.stride[2] == 35);
  return NULL;
}

static const char* attention(void) {
  rapt_arguments arguments;
  rapt_options options;
  const char* fault = fill(&arguments);
  if (fault) return fault;
  EXPECT(rapt_options_init(&options, sizeof options) == RAPT_OK);
  EXPECT(rapt_attention(&arguments, NULL, NULL) == RAPT_OK);
  EXPECT(close_to(out[0], 2) && close_to(out[7], 2) && close_to(lse[1], logf(2)));
  options.causal = 1;
  EXPECT(rapt_attention(&arguments, &options, "cpu") == RAPT_OK);
  EXPECT(close_to(out[0], 1) && close_to(out[7], 2) && close_to(lse[0], 0));
  EXPECT(rapt_check(&arguments, &options, NULL) == RAPT_OK);
  return NULL;
}

static void one_after_another(void* context, int64_t count, void (*body)(void*, int64_t),
                              void* body_context) {
  for (int64_t index = 0; index < count; ++index) body(body_context, index);
  *(int*)context += 1;
}

/* Weights of 1/2 give each value half of every query's dout, and queries and keys of 0 nothing. */
static const char* gradients(void) {
  static float dout[8], dq[8], dk[8], dv[8];
  rapt_arguments arguments;
  const char* fault = fill(&arguments);
  if (fault) return fault;
  EXPECT(rapt_attention(&arguments, NULL, NULL) == RAPT_OK);
  for (int i = 0; i < 8; ++i) dout[i] = i < 4 ? 1.0f : 2.0f;
  EXPECT(rapt_tensor_dense(&arguments.dout, dout, RAPT_DTYPE_F32, 4, size) == RAPT_OK);
  EXPECT(rapt_tensor_dense(&arguments.dq, dq, RAPT_DTYPE_F32, 4, size) == RAPT_OK);
  EXPECT(rapt_tensor_dense(&arguments.dk, dk, RAPT_DTYPE_F32, 4, size) == RAPT_OK);
  EXPECT(rapt_attention_backward(&arguments, NULL, "cpu") == RAPT_ERROR_INVALID_ARGUMENT);
  EXPECT(strstr(rapt_last_error(), "dv is missing") != NULL);
  EXPECT(rapt_tensor_dense(&arguments.dv, dv, RAPT_DTYPE_F32, 4, size) == RAPT_OK);
  EXPECT(rapt_attention_backward(&arguments, NULL, "cpu") == RAPT_OK);
  EXPECT(close_to(dq[0], 0) && close_to(dk[7], 0));
  EXPECT(close_to(dv[0], 1.5f) && close_to(dv[7], 1.5f));
  EXPECT(rapt_attention(&arguments, NULL, NULL) == RAPT_ERROR_INVALID_ARGUMENT);
  return NULL;
}

static const char* plan(void) {
  rapt_arguments arguments;
  rapt_options options;
  rapt_executor executor;
  rapt_plan_options plan_options;
  rapt_launch launch;
  rapt_plan *made = NULL, *parsed = NULL;
  rapt_buffer* workspace = NULL;
  const char *kernel = NULL, *fault = fill(&arguments);
  char problem[200], same_problem[200], config[200];
  size_t needed = 0;
  int calls = 0;
  if (fault) return fault;
  EXPECT(rapt_options_init(&options, sizeof options) == RAPT_OK);
  EXPECT(rapt_executor_init(&executor, sizeof executor) == RAPT_OK);
  EXPECT(rapt_plan_options_init(&plan_options, sizeof plan_options) == RAPT_OK);
  EXPECT(rapt_launch_init(&launch, sizeof launch) == RAPT_OK);
  executor.context = &calls;
  executor.concurrency = 1;
  executor.parallel_for = one_after_another;
  plan_options.kernel = "cpu.naive";
  plan_options.executor = &executor;

  EXPECT(rapt_plan_create(&arguments, &options, NULL, &plan_options, &made) == RAPT_OK);
  EXPECT(rapt_plan_kernel(made, &kernel) == RAPT_OK && strcmp(kernel, "cpu.naive") == 0);
  EXPECT(rapt_plan_config(made, config, sizeof config, &needed) == RAPT_OK);
  EXPECT(strcmp(config, "") == 0 && needed == 1);
  EXPECT(rapt_plan_problem(made, problem, sizeof problem, &needed) == RAPT_OK);
  EXPECT(needed == strlen(problem) + 1);
  EXPECT(rapt_problem_of(&arguments, &options, same_problem, sizeof same_problem, NULL) == RAPT_OK);
  EXPECT(strcmp(problem, same_problem) == 0);
  EXPECT(strcmp(problem, "b1 h1 s2 d4 f32 lse") == 0);

  EXPECT(rapt_plan_create_from_problem(problem, "cpu", &plan_options, &parsed) == RAPT_OK);
  EXPECT(rapt_plan_workspace_bytes(parsed, &launch.workspace_bytes) == RAPT_OK);
  EXPECT(launch.workspace_bytes > 0);
  EXPECT(rapt_buffer_create(NULL, launch.workspace_bytes, &workspace) == RAPT_OK);
  EXPECT(rapt_buffer_data(workspace, &launch.workspace) == RAPT_OK && launch.workspace != NULL);
  EXPECT(rapt_plan_run(parsed, &arguments, &launch) == RAPT_OK);
  EXPECT(close_to(out[0], 2) && close_to(out[7], 2) && calls > 0);

  rapt_plan_destroy(made);
  rapt_plan_destroy(parsed);
  rapt_plan_destroy(NULL);
  rapt_buffer_destroy(workspace);
  rapt_buffer_destroy(NULL);
  return NULL;
}

static const char* buffers(void) {
  rapt_buffer* buffer = NULL;
  float there[2] = {5, 6}, back[2] = {0, 0};
  EXPECT(rapt_buffer_create("cpu", sizeof there, &buffer) == RAPT_OK);
  EXPECT(rapt_buffer_copy_from_host(buffer, there, sizeof there) == RAPT_OK);
  EXPECT(rapt_buffer_copy_to_host(buffer, back, sizeof back) == RAPT_OK);
  EXPECT(memcmp(there, back, sizeof there) == 0);
  rapt_buffer_destroy(buffer);
  return NULL;
}

static const char* merging(void) {
  const float infinity = INFINITY;
  float first_out[4] = {1, 1, 1, 1}, first_lse = 0.5f, second_out[4] = {3, 3, 3, 3};
  float second_lse = 0.5f;
  const int64_t one_row[4] = {1, 1, 1, 4}, one_sum[3] = {1, 1, 1};
  rapt_partial first, second;
  rapt_executor executor;
  rapt_merge_options options;
  int calls = 0;
  EXPECT(rapt_partial_init(&first, sizeof first) == RAPT_OK);
  EXPECT(rapt_partial_init(&second, sizeof second) == RAPT_OK);
  EXPECT(rapt_tensor_dense(&first.out, first_out, RAPT_DTYPE_F32, 4, one_row) == RAPT_OK);
  EXPECT(rapt_tensor_dense(&first.lse, &first_lse, RAPT_DTYPE_F32, 3, one_sum) == RAPT_OK);
  EXPECT(rapt_tensor_dense(&second.out, second_out, RAPT_DTYPE_F32, 4, one_row) == RAPT_OK);
  EXPECT(rapt_tensor_dense(&second.lse, &second_lse, RAPT_DTYPE_F32, 3, one_sum) == RAPT_OK);
  EXPECT(rapt_merge(&first, &second, &first, "cpu", NULL) == RAPT_OK);
  EXPECT(close_to(first_out[3], 2) && close_to(first_lse, 0.5f + logf(2)));
  EXPECT(rapt_executor_init(&executor, sizeof executor) == RAPT_OK);
  EXPECT(rapt_merge_options_init(&options, sizeof options) == RAPT_OK);
  executor.context = &calls;
  executor.concurrency = 1;
  executor.parallel_for = one_after_another;
  options.executor = &executor;
  EXPECT(rapt_merge(&first, &second, &second, NULL, &options) == RAPT_OK && calls == 1);
  EXPECT(close_to(second_lse, 0.5f + logf(3)));
  first_lse = second_lse = -infinity;
  EXPECT(rapt_merge(&first, &second, &first, NULL, NULL) == RAPT_OK);
  EXPECT(first_out[0] == 0 && first_lse == -infinity);
  return NULL;
}

static const char* lists(void) {
  int32_t kernels = 0, devices = 0, backend = -1;
  const char* name = NULL;
  char text[4000];
  size_t needed = 0;
  EXPECT(strlen(rapt_version()) > 0);
  EXPECT(rapt_kernel_count(&kernels) == RAPT_OK && kernels >= 2);
  EXPECT(rapt_kernel_name(0, &name) == RAPT_OK && strcmp(name, "cpu.oracle") == 0);
  EXPECT(rapt_kernel_backend(0, &backend) == RAPT_OK && backend == RAPT_BACKEND_CPU);
  EXPECT(rapt_device_count(&devices) == RAPT_OK && devices >= 1);
  EXPECT(rapt_device_name(0, text, sizeof text, &needed) == RAPT_OK && strcmp(text, "cpu") == 0);
  EXPECT(needed == 4);
  EXPECT(rapt_explain("b1 h1 s2 d4 f32", NULL, text, sizeof text, &needed) == RAPT_OK);
  EXPECT(strstr(text, "cpu.naive") != NULL && needed == strlen(text) + 1);
  return NULL;
}

static const char* properties(void) {
  rapt_device_properties device;
  size_t bytes = 0;
  EXPECT(rapt_device_properties_init(&device, sizeof device) == RAPT_OK);
  EXPECT(rapt_device_describe("cpu", &device) == RAPT_OK);
  EXPECT(device.struct_size == sizeof device && device.backend == RAPT_BACKEND_CPU);
  EXPECT(device.threads >= 1 && device.multiprocessors == 0 && device.memory_bytes > 0);
  EXPECT(strlen(device.chip) > 0 && device.f32_flops > 0 && device.read_bandwidth > 0);
  EXPECT(rapt_struct_size("rapt_options", &bytes) == RAPT_OK && bytes == sizeof(rapt_options));
  return NULL;
}

static const char* errors(void) {
  EXPECT(strcmp(rapt_status_name(RAPT_ERROR_NOT_FOUND), "RAPT_ERROR_NOT_FOUND") == 0);
  EXPECT(strcmp(rapt_status_name(99), "unknown") == 0);
  EXPECT(rapt_kernel_count(NULL) == RAPT_ERROR_INVALID_ARGUMENT);
  EXPECT(strstr(rapt_last_error(), "count is null") != NULL);
  return NULL;
}

/* Null if all went as it should, else what did not. */
const char* use_every_function(void);
const char* use_every_function(void) {
  const char* (*const parts[])(void) = {tensors, attention, gradients,  plan,  buffers,
                                        merging, lists,     properties, errors};
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; ++i) {
    const char* fault = parts[i]();
    if (fault) return fault;
  }
  return NULL;
}
