/* The C API of rapt: exact attention, softmax(Q K^T scale + bias) V, and its gradients, for C and
 * for bindings to it.
 *
 * It says the same as rapt.hpp, which explains the terms. What is particular to C:
 *
 * Status. Functions return RAPT_OK or one of rapt_status. After a failure rapt_last_error() gives a
 * sentence that names the value, the limit and the way out. Nothing is thrown, printed or aborted.
 *
 * Structs. Those that may grow begin with struct_size. Set them up with their rapt_*_init function,
 * passing sizeof, then fill in what is wanted: everything else is absent or its default, which is
 * zero throughout. A program built against an older header keeps working: only fields inside
 * struct_size are read. Pointers to optional structs may be null.
 *
 * Flags are int32_t and must be 0 or 1. A field `x` with a `has_x` counts only if has_x is 1.
 *
 * Devices are text: "cpu", "cuda:0", "hip:1". Null means "cpu".
 *
 * Text out. Functions that write text take (char* buffer, size_t capacity, size_t* needed). They
 * write as much as fits, always end it with a zero if capacity is above 0, and set *needed to the
 * capacity that holds all of it, the zero included. Text that was cut short is not an error:
 * compare *needed with capacity. buffer may be null if capacity is 0; needed may be null.
 *
 * Threads. Every function may be called from many threads at once; a plan may be run by many at
 * once, each with its own workspace. Destroying an object that is in use is the caller's mistake.
 */
#ifndef RAPT_RAPT_H
#define RAPT_RAPT_H

#include <stddef.h>
#include <stdint.h>

#include "rapt/version.h"

#if defined(__GNUC__)
#define RAPT_C_API __attribute__((visibility("default")))
#else
#define RAPT_C_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

enum rapt_status {
  RAPT_OK = 0,
  RAPT_ERROR_INVALID_ARGUMENT = 1, /* the caller's input is wrong */
  RAPT_ERROR_UNSUPPORTED = 2,      /* no kernel, or not the named one, takes the input */
  RAPT_ERROR_NOT_FOUND = 3,        /* no such kernel or device */
  RAPT_ERROR_OUT_OF_MEMORY = 4,
  RAPT_ERROR_DEVICE_FAILURE = 5, /* a GPU's driver or runtime reported an error */
  RAPT_ERROR_INTERNAL = 6        /* a fault of rapt itself */
};

enum rapt_dtype {
  RAPT_DTYPE_NONE = 0, /* the tensor is absent */
  RAPT_DTYPE_F32 = 1,
  RAPT_DTYPE_F16 = 2,
  RAPT_DTYPE_BF16 = 3,
  RAPT_DTYPE_I32 = 4,
  RAPT_DTYPE_U8 = 5,
  RAPT_DTYPE_I64 = 6
};

enum rapt_backend {
  RAPT_BACKEND_CPU = 0,
  RAPT_BACKEND_CUDA = 1,
  RAPT_BACKEND_HIP = 2,
  RAPT_BACKEND_EMU = 3 /* GPUs emulated for rapt's own tests: no installed library has it */
};

/* A view of memory that somebody else owns. Strides are in elements; the last axis is contiguous;
 * unused axes have size 1. A tensor of zeros is absent. rapt writes to results only. */
typedef struct rapt_tensor {
  void* data;
  int32_t dtype; /* rapt_dtype */
  int64_t size[4];
  int64_t stride[4];
} rapt_tensor;

/* q, k, v and out are needed; the rest may be absent.
 *
 *   q           [batch, seq, head, dim]         packed: [1, total, head, dim]
 *   k, v        [batch, seq, kv head, dim]      packed: [1, total, ...]   paged: [page, slot, ...]
 *   out         as q, with v's dim
 *   lse         [batch, head, seq] f32          packed: [1, head, total]
 *   bias        [batch, head, seq q, seq kv], size 1 where broadcast; f32 or q's dtype
 *   mask        as bias, u8; 1: attend
 *   alibi                   [head] or [batch, head] f32
 *   sinks                   [head] f32
 *   q_starts, kv_starts     [batch + 1] i32: packed sequences; kv_starts only if keys are not paged
 *   kv_lengths              [batch] i32: how many keys of each sequence are in use
 *   page_table              [batch, pages of a sequence] i32
 *   seed                    [2] i64: of dropout, a seed and an offset; in the device's memory
 *
 * Backward, which is computed where dout is there, reads all of these, out and lse too, and
 *   dout, dlse              as out and lse: gradients of those; dlse may be absent
 * and writes
 *   dq, dk, dv              as q, k and v; of q's dtype or f32
 *   dbias, dsinks, dalibi   as bias (summed where that is broadcast; f32 or its dtype), sinks and
 *                           alibi; each where it is wanted
 *
 * Nothing else lies in the memory of results. */
typedef struct rapt_arguments {
  size_t struct_size;
  rapt_tensor q, k, v, out;
  rapt_tensor lse, bias, mask, alibi, sinks;
  rapt_tensor q_starts, kv_starts, kv_lengths, page_table;
  rapt_tensor dout, dlse, dq, dk, dv, dbias, dsinks, dalibi;
  rapt_tensor seed;
} rapt_arguments;

typedef struct rapt_options {
  size_t struct_size;
  int32_t causal;          /* no key after the query's position */
  int32_t batch_invariant; /* a row's bits do not depend on what else is in the batch */
  int32_t tf32;            /* single TF32 products allowed for f32 */
  int32_t has_window_left, has_window_right, has_offset;
  int32_t has_max_q_len, has_max_kv_len, has_total_kv;
  int32_t has_scale;
  float scale;                       /* finite; absent: 1 / sqrt(dim) */
  float softcap;                     /* 0: none */
  int64_t window_left, window_right; /* keys before and after the position; absent: unbounded */
  int64_t offset;                    /* position of query 0 among the keys; absent: at the end */
  int64_t max_q_len, max_kv_len;     /* of one packed or paged sequence; absent: what can be */
  int64_t total_kv;                  /* expected sum of kv_lengths, for estimates only */
  int64_t window_first_keys;         /* of a sequence, that window_left does not hide; 0: none */
  double dropout; /* probability that a pair is dropped, below 1, rounded to 1/256; 0: none */
  int32_t row_invariant; /* nor on other queries, on keys that it does not see, pages and packing;
                            implies batch_invariant */
} rapt_options;

/* Threads lent by the caller. parallel_for calls body(body_context, index) once for each index from
 * 0 to count - 1, on any threads in any order, and returns when all are done. `context` is handed
 * to it unchanged, and must live as long as the plan or the call. */
typedef struct rapt_executor {
  size_t struct_size;
  void* context;
  void (*parallel_for)(void* context, int64_t count,
                       void (*body)(void* body_context, int64_t index), void* body_context);
  int32_t concurrency; /* how many indices run at once at most; 1 or more */
  int32_t reserved;    /* 0 */
} rapt_executor;

typedef struct rapt_plan_options {
  size_t struct_size;
  const char* kernel; /* null or "": RAPT_KERNEL, else rapt's choice */
  const char* config; /* "key=value,key=value", values that replace the kernel's own; or null */
  const rapt_executor* executor; /* CPU only; null: rapt's own threads. Copied into the plan */
  int32_t has_workspace_limit;
  size_t workspace_limit; /* bytes that the plan's workspace may have; absent: any number */
} rapt_plan_options;

typedef struct rapt_launch {
  size_t struct_size;
  void* stream;    /* GPU: the stream; null is the default one */
  void* workspace; /* aligned to 64 bytes, in the device's memory */
  size_t workspace_bytes;
} rapt_launch;

/* The result of attending to one set of keys. */
typedef struct rapt_partial {
  size_t struct_size;
  rapt_tensor out, lse;
} rapt_partial;

typedef struct rapt_merge_options {
  size_t struct_size;
  void* stream;                  /* GPU: the stream; null is the default one */
  const rapt_executor* executor; /* CPU only; null: rapt's own threads */
} rapt_merge_options;

/* What a device is; filled in by rapt_device_describe. Limits are flop/s, bytes/s and bytes, from
 * the data sheet; 0: unknown or absent. */
typedef struct rapt_device_properties {
  size_t struct_size;
  int32_t backend;         /* rapt_backend */
  int32_t index;           /* among the backend's devices */
  int32_t threads;         /* that a plan uses on the CPU; 1 on a GPU */
  int32_t multiprocessors; /* of a GPU; 0 on the CPU */
  double f32_flops, matrix_flops;
  double read_bandwidth, copy_bandwidth;
  double memory_bytes, cache_bytes;
  char chip[128];     /* what the chip is called */
  char features[128]; /* names separated by spaces: "avx2 fma f16c" */
} rapt_device_properties;

typedef struct rapt_plan rapt_plan;
typedef struct rapt_buffer rapt_buffer;

/* Of the library; the version of this header is RAPT_VERSION_MAJOR, _MINOR and _PATCH. */
RAPT_C_API const char* rapt_version(void);

/* The sentence of the calling thread's last failure, "" if there was none. Never null; valid until
 * the thread's next failure. */
RAPT_C_API const char* rapt_last_error(void);

/* "RAPT_OK", "RAPT_ERROR_UNSUPPORTED"; "unknown" for other numbers. Static text, never null. */
RAPT_C_API const char* rapt_status_name(int32_t status);

/* sizeof a struct by its name, "rapt_arguments", as the library has it: a binding that declares the
 * structs anew compares its own. */
RAPT_C_API int32_t rapt_struct_size(const char* name, size_t* size);

RAPT_C_API int32_t rapt_arguments_init(rapt_arguments* arguments, size_t struct_size);
RAPT_C_API int32_t rapt_options_init(rapt_options* options, size_t struct_size);
RAPT_C_API int32_t rapt_executor_init(rapt_executor* executor, size_t struct_size);
RAPT_C_API int32_t rapt_plan_options_init(rapt_plan_options* options, size_t struct_size);
RAPT_C_API int32_t rapt_launch_init(rapt_launch* launch, size_t struct_size);
RAPT_C_API int32_t rapt_partial_init(rapt_partial* partial, size_t struct_size);
RAPT_C_API int32_t rapt_merge_options_init(rapt_merge_options* options, size_t struct_size);
RAPT_C_API int32_t rapt_device_properties_init(rapt_device_properties* properties,
                                               size_t struct_size);

/* A row-major tensor of `axes` (at most 4) axes. Inputs may be const. */
RAPT_C_API int32_t rapt_tensor_dense(rapt_tensor* tensor, const void* data, int32_t dtype,
                                     int32_t axes, const int64_t* size);

/* The same memory with two axes exchanged, so that bhsd data can be given as bshd. `result` may be
 * `tensor`. */
RAPT_C_API int32_t rapt_tensor_transposed(rapt_tensor* result, const rapt_tensor* tensor,
                                          int32_t axis, int32_t other);

/* One attention from start to end: problem, plan, workspace, run, wait. */
RAPT_C_API int32_t rapt_attention(const rapt_arguments* arguments, const rapt_options* options,
                                  const char* device);

/* The gradients of one attention, from its arguments, its results out and lse, and dout. lse may
 * cover more keys than these arguments have, as it does in one step of a ring. */
RAPT_C_API int32_t rapt_attention_backward(const rapt_arguments* arguments,
                                           const rapt_options* options, const char* device);

/* Binds the problem that the arguments pose to a device and a kernel. On failure *plan is null. */
RAPT_C_API int32_t rapt_plan_create(const rapt_arguments* arguments, const rapt_options* options,
                                    const char* device, const rapt_plan_options* plan_options,
                                    rapt_plan** plan);

/* The same from a problem string, as in "b2 h32/8 q1 kv8192 d128 bf16 causal page16". */
RAPT_C_API int32_t rapt_plan_create_from_problem(const char* problem, const char* device,
                                                 const rapt_plan_options* plan_options,
                                                 rapt_plan** plan);
RAPT_C_API void rapt_plan_destroy(rapt_plan* plan); /* null is fine */

/* Computes; allocates nothing. On the CPU it returns when the result is there, on a GPU when the
 * work is in the stream. */
RAPT_C_API int32_t rapt_plan_run(const rapt_plan* plan, const rapt_arguments* arguments,
                                 const rapt_launch* launch);
RAPT_C_API int32_t rapt_plan_workspace_bytes(const rapt_plan* plan, size_t* bytes);
RAPT_C_API int32_t rapt_plan_kernel(const rapt_plan* plan, const char** name); /* static text */

/* The config that it runs with, "key=value,key=value"; "" if the kernel has none. */
RAPT_C_API int32_t rapt_plan_config(const rapt_plan* plan, char* buffer, size_t capacity,
                                    size_t* needed);
RAPT_C_API int32_t rapt_plan_problem(const rapt_plan* plan, char* buffer, size_t capacity,
                                     size_t* needed);

/* The problem string of arguments and options. */
RAPT_C_API int32_t rapt_problem_of(const rapt_arguments* arguments, const rapt_options* options,
                                   char* buffer, size_t capacity, size_t* needed);

/* Every kernel of the device with its estimate or its refusal, and the choice. */
RAPT_C_API int32_t rapt_explain(const char* problem, const char* device, char* buffer,
                                size_t capacity, size_t* needed);

/* Reads starts, lengths and page table, from the device where needed, and reports the first fault.
 */
RAPT_C_API int32_t rapt_check(const rapt_arguments* arguments, const rapt_options* options,
                              const char* device);

/* Combines two disjoint sets of keys exactly; each out may be f32, f16 or bf16. Each of `result`
 * may be the same of `first` or `second`, else it has memory of its own. On the CPU it returns when
 * the result is there, on a GPU when the work is in the stream. */
RAPT_C_API int32_t rapt_merge(const rapt_partial* first, const rapt_partial* second,
                              const rapt_partial* result, const char* device,
                              const rapt_merge_options* options);

/* Memory on a device, for those who have no allocator; on the CPU aligned to 64 bytes. */
RAPT_C_API int32_t rapt_buffer_create(const char* device, size_t bytes, rapt_buffer** buffer);
RAPT_C_API void rapt_buffer_destroy(rapt_buffer* buffer); /* null is fine */
RAPT_C_API int32_t rapt_buffer_data(const rapt_buffer* buffer, void** data);
RAPT_C_API int32_t rapt_buffer_copy_from_host(rapt_buffer* buffer, const void* source,
                                              size_t bytes);
RAPT_C_API int32_t rapt_buffer_copy_to_host(const rapt_buffer* buffer, void* target, size_t bytes);

/* Kernels by index from 0, in the order of the ladder. */
RAPT_C_API int32_t rapt_kernel_count(int32_t* count);
RAPT_C_API int32_t rapt_kernel_name(int32_t index, const char** name); /* static text */
RAPT_C_API int32_t rapt_kernel_backend(int32_t index, int32_t* backend);

/* Devices of this machine by index from 0; the name is what other functions take: "cpu", "cuda:0".
 */
RAPT_C_API int32_t rapt_device_count(int32_t* count);
RAPT_C_API int32_t rapt_device_name(int32_t index, char* buffer, size_t capacity, size_t* needed);

/* Fills in what the caller's version of the struct has, up to its struct_size. */
RAPT_C_API int32_t rapt_device_describe(const char* device, rapt_device_properties* properties);

#ifdef __cplusplus
}
#endif

#endif
