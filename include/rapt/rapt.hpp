// The C++ API of rapt: exact attention, softmax(Q Kᵀ · scale + bias) V, and its gradients.
//
// Tensors (never owned) go into Arguments. Problem::of() reads off everything that the choice of a
// kernel depends on, a Plan binds a problem to a device and a kernel, and Plan::run() computes, as
// often as wanted, without allocating. attention() and attention_backward() do all of it in one
// call. Every fault is a
// rapt::Error whose sentence names the value, the limit and the way out. docs/numerics.md states
// what the results promise; docs/architecture.md explains problem strings.
#pragma once

#if __cplusplus < 202002L
#error "rapt/rapt.hpp needs C++20: compile with -std=c++20, by g++ 11, clang 14 or newer"
#endif

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rapt/dtype.hpp"
#include "rapt/version.h"

#if defined(__GNUC__)
#define RAPT_API __attribute__((visibility("default")))
#else
#define RAPT_API
#endif

namespace rapt {

enum class ErrorCode : std::int32_t {
  invalid_argument = 1,  // the caller's input is wrong
  unsupported = 2,       // the input is right, but no kernel (or not the named one) takes it
  not_found = 3,         // no such kernel or device
  out_of_memory = 4,
  device_failure = 5,  // a GPU's driver or runtime reported an error
  internal = 6,        // a fault of rapt itself
};

class RAPT_API Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& sentence) : std::runtime_error(sentence), code_(code) {}
  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

RAPT_API std::string_view name(DType dtype);
RAPT_API std::int64_t size_in_bytes(DType dtype);

// A view of memory that somebody else owns. Strides are in elements. Fewer than four axes: the rest
// have size 1.
struct RAPT_API Tensor {
  void* data = nullptr;
  DType dtype = DType::none;  // none: absent
  std::array<std::int64_t, 4> size = {};
  std::array<std::int64_t, 4> stride = {};

  bool present() const { return dtype != DType::none; }

  // A row-major tensor of up to four axes. Inputs may be const: rapt writes to results only.
  static Tensor dense(const void* data, DType dtype, std::span<const std::int64_t> size);
  static Tensor dense(const void* data, DType dtype, std::initializer_list<std::int64_t> size) {
    return dense(data, dtype, std::span(size.begin(), size.size()));
  }

  // The same memory with two axes exchanged: bhsd data is dense(p, t, {b, h, s, d}).transposed(1,
  // 2).
  Tensor transposed(int axis, int other) const;
};

// Axes, in this order:
//   q           [batch, seq, head, dim]         packed: [1, total, head, dim]
//   k, v        [batch, seq, kv head, dim]      packed: [1, total, ...]   paged: [page, slot, ...]
//   out         as q, with v's dim; of q's type or f32
//   lse         [batch, head, seq] f32          packed: [1, head, total]
//   bias        [batch, head, seq q, seq kv], size 1 where broadcast; f32 or q's type
//   mask        as bias, u8; 1: attend
//   alibi                   [head] or [batch, head] f32
//   sinks                   [head] f32
//   q_starts, kv_starts     [batch + 1] i32: packed sequences; kv_starts only if keys are not paged
//   kv_lengths              [batch] i32: how many keys of each sequence are in use
//   page_table              [batch, pages of a sequence] i32
//   seed                    [2] i64: of dropout, a seed and an offset; in the device's memory
// Backward, which is computed where dout is there, reads all of these, out and lse too, and
//   dout, dlse              as out and lse: gradients of those; dlse may be absent
// and writes
//   dq, dk, dv              as q, k and v; of q's type or f32
//   dbias, dsinks, dalibi   as bias (summed where that is broadcast; f32 or its type), sinks and
//                           alibi; each where it is wanted
// The last axis of every tensor is contiguous. Nothing else lies in the memory of results.
// tensors() lists them.
struct Arguments {
  Tensor q = {}, k = {}, v = {}, out = {}, lse = {}, bias = {}, mask = {}, alibi = {}, sinks = {};
  Tensor q_starts = {}, kv_starts = {}, kv_lengths = {}, page_table = {};
  Tensor dout = {}, dlse = {}, dq = {}, dk = {}, dv = {}, dbias = {}, dsinks = {}, dalibi = {};
  Tensor seed = {};
};

// A tensor of Arguments by its name: for bindings, and whoever handles all of them alike.
struct TensorInfo {
  using Member = Tensor Arguments::*;
  enum class Form { rows, pairs, logsumexp, plain };  // as q, as bias, as lse; else as it stands
  std::string_view name;
  Member member;
  Form form;
  std::int32_t least_axes, most_axes;  // rows and pairs may lack leading axes
  enum class Use { none, reads, writes };
  struct Part {
    Use use;
    bool needed;
  };
  Part forward, backward;  // in each operation
};
RAPT_API std::span<const TensorInfo> tensors();

// Keys from position − left to position + right, both included. An absent side is unbounded. The
// left bound does not hide the first `first_keys` keys of a sequence, which StreamingLLM calls
// attention sinks.
struct Window {
  std::optional<std::int64_t> left = {}, right = {};
  std::int64_t first_keys = 0;  // 0 without a left bound
  friend bool operator==(const Window&, const Window&) = default;
};

struct Options {
  bool causal = false;  // the same as window.right = 0
  Window window = {};
  std::optional<std::int64_t> offset = {};  // position of query 0; absent: aligned at the end
  std::optional<float> scale = {};          // finite; absent: 1/√dim
  float softcap = 0;                        // 0: none
  // Probability that a pair is dropped, below 1; 0: none. In steps of 1/256: rapt rounds it, and
  // divides by 1 − what it was rounded to.
  double dropout = 0;
  bool batch_invariant = false;  // a row's bits do not depend on what else is in the batch
  // Nor on the number of queries, on keys that it does not see, on pages and packing: a token has
  // the same bits in prefill, in any chunk of it, and in decode. Implies batch_invariant.
  bool row_invariant = false;
  bool tf32 = false;  // single TF32 products allowed for f32
  // Upper bounds of one sequence, for packed queries and for packed or paged keys. Absent: the
  // largest possible.
  std::optional<std::int64_t> max_q_len = {}, max_kv_len = {};
  std::optional<std::int64_t> total_kv = {};  // expected sum of kv_lengths, for estimates only
};

// A bias or a mask, as a problem knows it: which axes are real, and the strides of the first three.
struct ScoreTensor {
  DType dtype = DType::none;                // none: absent
  std::array<bool, 4> varies = {};          // (b, h, q, k): false where broadcast
  std::array<std::int64_t, 3> stride = {};  // (b, h, q), 0 where broadcast
  bool present() const { return dtype != DType::none; }
  friend bool operator==(const ScoreTensor&, const ScoreTensor&) = default;
};

// What is computed.
enum class Operation : std::int32_t { forward = 0, backward = 1 };
RAPT_API std::string_view name(Operation operation);

// Everything the choice of a kernel depends on; no pointers, no data. Strides are 0 for axes of
// size 1, and all over an empty tensor.
//
// With varlen or lengths the sizes are bounds: a plan takes every batch with no more sequences,
// queries, keys or packed rows than its problem, at the strides it was planned with.
struct RAPT_API Problem {
  using Strides = std::array<std::int64_t, 3>;

  Operation operation = Operation::forward;
  DType dtype = DType::f32;      // of q, and what products are made of
  DType kv_dtype = DType::f32;   // of k and v: as q's
  DType out_dtype = DType::f32;  // as q's, or f32
  std::int64_t batch = 1, heads = 1, kv_heads = 1;
  std::int64_t q_len = 0, kv_len = 0;  // of one sequence
  // Over all sequences: what is stored (varlen) or expected (lengths).
  std::int64_t total_q = 0, total_kv = 0;
  std::int64_t qk_dim = 0, v_dim = 0;
  bool varlen = false, lengths = false;
  std::int64_t page_size = 0;  // 0: not paged
  Window window = {};
  std::optional<std::int64_t> offset = {};
  float scale = 0;
  float softcap = 0;
  float dropout = 0;  // a multiple of 1/256
  ScoreTensor bias = {}, mask = {};
  bool alibi = false, alibi_per_sequence = false;  // slopes [head], or [batch, head]
  bool sinks = false, lse = false, tf32 = false;
  bool batch_invariant = false, row_invariant = false;  // the second implies the first
  Strides q = {}, k = {}, v = {}, out = {};             // (batch, seq, head)
  Strides lse_stride = {};                              // (batch, head, seq)
  // Of a backward problem, whose lse is always there.
  DType dq_dtype = DType::none, dk_dtype = DType::none, dv_dtype = DType::none;  // q's, or f32
  ScoreTensor dbias = {};                             // varies as bias does
  bool dlse = false, dsinks = false, dalibi = false;  // given; wanted
  Strides dout = {}, dq = {}, dk = {}, dv = {};       // (batch, seq, head)
  Strides dlse_stride = {};                           // (batch, head, seq)

  // Bytes, of the pointers and strides of q, k, v, out and their gradients; 16 at most.
  std::int64_t alignment = 16;

  static Problem of(const Arguments& arguments, const Options& options = {});
  static Problem parse(std::string_view text);
  std::string to_string() const;
  void validate() const;  // throws Error with the first fault

  bool causal() const { return window.right == 0; }
  bool bounded() const { return varlen || lengths; }  // sizes are bounds
  bool paged() const { return page_size > 0; }
  // 2 · (qk_dim + v_dim) for each visible pair; backward 2 · (3 · qk_dim + 2 · v_dim). Mask tensors
  // are not counted.
  double flops() const;
  double bytes() const;  // every input read once, every output written once
  friend bool operator==(const Problem&, const Problem&) = default;
};

enum class Backend : std::int32_t {
  cpu = 0,
  cuda = 1,
  hip = 2,
  emu = 3,  // GPUs emulated on the host, for rapt's own tests: no installed library has it
};
RAPT_API std::string_view name(Backend backend);

// What a chip can do at best: flop/s, bytes/s, bytes. 0: unknown or absent.
struct Limits {
  double f32_flops = 0;
  double matrix_flops = 0;  // of f16 and bf16: matrix units, or AVX-512's dot products
  double read_bandwidth = 0, copy_bandwidth = 0;
  double memory_bytes = 0, cache_bytes = 0;
};

struct RAPT_API Device {
  Backend backend = Backend::cpu;
  std::int32_t index = 0;
  std::string name;
  std::string features;              // names separated by spaces: "avx2 fma f16c"
  std::int32_t threads = 1;          // that a plan uses on the CPU; 1 on a GPU
  std::int32_t multiprocessors = 0;  // of a GPU; 0 on the CPU
  Limits nominal;                    // from the data sheet, the same on every run

  // 0 threads: RAPT_THREADS, else every processor this process may use, by its CPU set and the
  // quota of its container.
  static Device cpu(std::int32_t threads = 0);
  static Device cuda(std::int32_t index = 0);
  static Device hip(std::int32_t index = 0);
  static Device parse(std::string_view text);  // "cpu", "cuda:0", "hip:1"
  std::string to_string() const;
  bool has(std::string_view feature) const;
};
RAPT_API std::vector<Device> devices();

// Threads lent by the caller. Both functions may be called from many threads at once.
class RAPT_API Executor {
 public:
  virtual ~Executor();
  virtual std::int32_t concurrency() const = 0;
  // Calls body(context, index) once for each index below count, on any threads in any order, and
  // returns when all are done. The body never throws.
  virtual void parallel_for(std::int64_t count, void (*body)(void* context, std::int64_t index),
                            void* context) = 0;
  // Asked between two pieces of work, by each thread that does them: true ends the run early,
  // without an error and with results that mean nothing.
  virtual bool stopped() { return false; }
};
// rapt's own threads, as a plan for this CPU uses them where it is given no executor: for one that
// adds something to them. They live as long as the process.
RAPT_API Executor& own_threads(const Device& device);

// A kernel's tile sizes, stages, splits: changes speed, never meaning. As text "key=value,...".
struct RAPT_API Config {
  std::vector<std::pair<std::string, std::int64_t>> values = {};
  static Config parse(std::string_view text);
  std::string to_string() const;
  std::int64_t at(std::string_view key) const;  // throws Error if there is no such key
  friend bool operator==(const Config&, const Config&) = default;
};

struct KernelInfo {
  std::string_view name, summary;
  Backend backend;
  bool by_name_only;  // never chosen by itself
  Operation operation;
};
RAPT_API std::vector<KernelInfo> kernels();

struct PlanOptions {
  std::string_view kernel = {};  // empty: RAPT_KERNEL, else the choice
  Config config = {};            // values that replace the kernel's own
  Executor* executor = nullptr;  // CPU: null uses rapt's own threads; outlives the plan
  std::optional<std::size_t> workspace_limit = {};  // bytes that Plan::workspace_bytes() may be
};

struct Candidate {
  std::string_view kernel;
  bool chosen = false;
  std::string refusal;          // empty: the kernel takes the problem
  Config config;                // its best guess; of the choice, what it would run with
  std::vector<Config> configs;  // all it can run with, best guess first
  double seconds = 0;           // estimate
  std::string_view bound;       // what the estimate is bound by: compute, memory, overhead
  std::size_t workspace_bytes = 0;
};

struct RAPT_API Explanation {
  std::string problem, device;
  std::vector<Candidate> candidates;  // every kernel of the device's backend
  std::string_view kernel;            // the choice; empty if nobody takes the problem
  std::string reason;
  std::string_view least_estimate;    // the choice where nobody names a kernel and none is tuned
  std::vector<std::string> warnings;  // why a tuning file, or what it says, is ignored
  std::string to_string() const;
};
// `options` as for a Plan: naming a kernel makes it the choice, or leaves none and gives the
// reason.
RAPT_API Explanation explain(const Problem& problem, const Device& device,
                             const PlanOptions& options = {});

inline constexpr std::size_t workspace_alignment = 64;  // bytes; a Buffer keeps it

struct Launch {
  void* stream = nullptr;  // GPU: the stream; null is the default one
  std::span<std::byte> workspace = {};
};

// Cheap to copy; run() is safe from many threads at once, each with its own workspace.
class RAPT_API Plan {
 public:
  Plan(const Problem& problem, const Device& device, const PlanOptions& options = {});
  const Problem& problem() const;
  const Device& device() const;
  std::string_view kernel() const;
  const Config& config() const;
  std::size_t workspace_bytes() const;
  // Allocates nothing. On the CPU it returns when the result is there; on a GPU when the work is in
  // the stream.
  void run(const Arguments& arguments, const Launch& launch = {}) const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

// Memory on a device, for those who have no allocator. CPU memory is aligned to 64 bytes.
class RAPT_API Buffer {
 public:
  Buffer() = default;
  Buffer(const Device& device, std::size_t bytes);
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void* data() const { return data_; }
  std::size_t size() const { return size_; }
  std::span<std::byte> bytes() const { return {static_cast<std::byte*>(data_), size_}; }
  void copy_from_host(const void* source, std::size_t bytes);
  void copy_to_host(void* target, std::size_t bytes) const;

 private:
  Device device_;
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

// One attention from start to end: problem, plan, workspace, run, and on a GPU waiting for the
// result.
RAPT_API void attention(const Arguments& arguments, const Options& options = {},
                        const Device& device = Device::cpu());

// The gradients of one attention, from its arguments, its results out and lse, and dout. lse may
// cover more keys than these arguments have, as it does in one step of a ring.
RAPT_API void attention_backward(const Arguments& arguments, const Options& options = {},
                                 const Device& device = Device::cpu());

// The result of attending to one set of keys: out as in Arguments, lse as in Arguments.
struct Partial {
  Tensor out = {}, lse = {};
};
struct MergeOptions {
  void* stream = nullptr;        // GPU: the stream; null is the default one
  Executor* executor = nullptr;  // CPU: null uses rapt's own threads
};
// Combines two disjoint sets of keys exactly; a sink belongs to one side only. Each `out` may be
// f32, f16 or bf16. Each of `result` may be the same of `first` or `second`, else it has memory of
// its own. Allocates nothing. On the CPU it returns when the result is there; on a GPU when the
// work is in the stream.
RAPT_API void merge(const Partial& first, const Partial& second, const Partial& result,
                    const Device& device = Device::cpu(), const MergeOptions& options = {});

// Reads starts, lengths and page table (from the device where needed) and throws Error with the
// first fault.
RAPT_API void check(const Problem& problem, const Arguments& arguments,
                    const Device& device = Device::cpu());

// Of the library; the version of this header is RAPT_VERSION_MAJOR, _MINOR and _PATCH.
RAPT_API std::string_view version();

}  // namespace rapt
