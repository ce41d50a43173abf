// `rapt run`: attention over .npy files.
//
// The files become tensors on the device, in the type that is computed in; the results come back,
// are rounded to the type of q's file, and are written whole or not at all.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>

#include "cli/arrays/device_array.hpp"
#include "cli/arrays/npy.hpp"
#include "cli/arrays/output_file.hpp"
#include "cli/program.hpp"
#include "cli/progress.hpp"
#include "cli/terminal.hpp"

namespace rapt::cli {
namespace {

struct RunOptions {
  std::string q, k, v, out, lse, bias, mask, alibi, sinks;  // paths; empty: absent
  std::string layout = "bshd", dtype, window;               // empty: absent
  bool causal = false;
  std::optional<std::int64_t> offset;
  std::optional<float> scale;
  float softcap = 0;

  bool heads_first() const { return layout == "bhsd"; }
  // What an array of q's or kv's file is to be computed in.
  DType compute_type(DType of_file) const {
    return dtype == "f32"    ? DType::f32
           : dtype == "f16"  ? DType::f16
           : dtype == "bf16" ? DType::bf16
                             : of_file;
  }
};

template <class... Parts>
[[noreturn]] void fault(fmt::format_string<Parts...> sentence, Parts&&... parts) {
  throw Error(ErrorCode::invalid_argument, fmt::format(sentence, std::forward<Parts>(parts)...));
}

std::int64_t parse_count(std::string_view text, std::string_view whole) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) {
    fault(
        "--window is '{}'; write L:R or L:R+N with whole numbers of 0 or more, L or R may be left "
        "out",
        whole);
  }
  return value;
}

std::optional<std::int64_t> parse_bound(std::string_view text, std::string_view whole) {
  if (text.empty()) return std::nullopt;
  return parse_count(text, whole);
}

Window parse_window(std::string_view text) {
  if (text.empty()) return {};
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) {
    parse_count(text, text);
    fault("--window is '{0}'; write L:R, e.g. {0}: for that many keys to the left", text);
  }
  Window window;
  window.left = parse_bound(text.substr(0, colon), text);
  std::string_view right = text.substr(colon + 1);
  if (const std::size_t plus = right.find('+'); plus != std::string_view::npos) {
    window.first_keys = parse_count(right.substr(plus + 1), text);
    right = right.substr(0, plus);
  }
  window.right = parse_bound(right, text);
  return window;
}

Options attention_options(const RunOptions& options) {
  Options result;
  result.causal = options.causal;
  result.window = parse_window(options.window);
  result.offset = options.offset;
  result.scale = options.scale;
  result.softcap = options.softcap;
  return result;
}

Array read_axes(const std::string& path, std::size_t axes, std::string_view meaning) {
  Array array = read_npy(path);
  if (array.shape.size() != axes) {
    fault("{} has shape {}; it must have {}: {}", path, shape_text(array.shape),
          axes == 1 ? "one axis" : "four axes", meaning);
  }
  return array;
}

// q, k or v.
Array read_main(const std::string& path, const RunOptions& options) {
  Array array =
      read_axes(path, 4, options.heads_first() ? "batch, head, seq, dim" : "batch, seq, head, dim");
  if (array.dtype == DType::u8) {
    fault("{} holds bytes; q, k and v are float32 or float16: convert it with .astype('float32')",
          path);
  }
  return array;
}

Array read_bias(const std::string& path, DType q_type) {
  Array array = read_axes(path, 4, "batch, head, q, kv, with size 1 where it is broadcast");
  const bool as_queries = array.dtype == DType::f16 && q_type == DType::f16;
  if (array.dtype != DType::f32 && !as_queries) {
    fault("{} holds {}; a bias for {} queries is float32{}: convert it with .astype('float32')",
          path, name(array.dtype), name(q_type), q_type == DType::f16 ? " or float16" : "");
  }
  return array;
}

Array read_mask(const std::string& path) {
  Array array = read_axes(path, 4, "batch, head, q, kv, with size 1 where it is broadcast");
  if (array.dtype != DType::u8) {
    fault("{} holds {}; a mask is bool or uint8: convert it with .astype('bool')", path,
          name(array.dtype));
  }
  return array;
}

Array as_f32(Array array, const std::string& path) {
  if (array.dtype != DType::f32) {
    fault("{} holds {}; it must be float32: convert it with .astype('float32')", path,
          name(array.dtype));
  }
  return array;
}

// Slopes may differ from sequence to sequence.
Array read_slopes(const std::string& path) {
  Array array = read_npy(path);
  if (array.shape.size() != 1 && array.shape.size() != 2) {
    fault("{} has shape {}; it must have one axis, head, or two: batch, head", path,
          shape_text(array.shape));
  }
  return as_f32(std::move(array), path);
}

Array read_per_head(const std::string& path) {
  return as_f32(read_axes(path, 1, "one value for each query head"), path);
}

// The tensors of one run, and the memory they lie in.
class Tensors {
 public:
  Tensors(const Device& device, const RunOptions& options) : device_(device), options_(options) {
    Array q = read_main(options.q, options);
    q_file_type_ = q.dtype;
    arguments_.q = keep_main(std::move(q));
    arguments_.k = keep_main(read_main(options.k, options));
    arguments_.v = keep_main(read_main(options.v, options));
    if (!options.bias.empty()) arguments_.bias = keep(read_bias(options.bias, arguments_.q.dtype));
    if (!options.mask.empty()) arguments_.mask = keep(read_mask(options.mask));
    if (!options.alibi.empty()) arguments_.alibi = keep(read_slopes(options.alibi));
    if (!options.sinks.empty()) arguments_.sinks = keep(read_per_head(options.sinks));

    const auto [batch, seq, heads, dim] = arguments_.q.size;
    const std::int64_t v_dim = arguments_.v.size[3];
    out_ = options.heads_first() ? allocate(device, arguments_.q.dtype, {batch, heads, seq, v_dim})
                                 : allocate(device, arguments_.q.dtype, {batch, seq, heads, v_dim});
    arguments_.out = in_layout(out_.tensor);
    if (options.lse.empty()) return;
    lse_ = allocate(device, DType::f32, {batch, heads, seq, 1});
    arguments_.lse = lse_.tensor;
  }

  const Arguments& arguments() const { return arguments_; }
  Array out() const { return converted(download(out_), q_file_type_); }
  Array lse() const {
    Array array = download(lse_);
    array.shape.pop_back();
    return array;
  }

 private:
  // As rapt sees it: (batch, seq, head, dim).
  Tensor in_layout(const Tensor& tensor) const {
    return options_.heads_first() ? tensor.transposed(1, 2) : tensor;
  }
  Tensor keep(const Array& array) {
    inputs_.push_back(upload(device_, array));
    return inputs_.back().tensor;
  }
  Tensor keep_main(Array array) {
    const DType type = options_.compute_type(array.dtype);
    return in_layout(keep(converted(std::move(array), type)));
  }

  const Device& device_;
  const RunOptions& options_;
  DType q_file_type_;
  std::vector<DeviceArray> inputs_;
  DeviceArray out_, lse_;
  Arguments arguments_;
};

void write(OutputFile& file, const Array& array) {
  file.write(npy_header(array.dtype, array.shape));
  file.write(array.data);
}

// Standard streams have one place each, and terminals none for arrays.
void check_streams(const RunOptions& options) {
  const auto inputs = {&options.q,    &options.k,     &options.v,    &options.bias,
                       &options.mask, &options.alibi, &options.sinks};
  if (std::ranges::count_if(inputs,
                            [](const std::string* path) { return is_standard_stream(*path); }) > 1)
    fault("more than one input is -; standard input holds one array: give the others as files");
  for (const std::string* path : {&options.out, &options.lse}) {
    if (is_standard_stream(*path) && terminal_width(stdout))
      fault("a result would go to the terminal as binary data; give it a file, or a pipe");
  }
}

double expected_seconds(const Problem& problem, const Device& device, const PlanOptions& options) {
  for (const Candidate& candidate : explain(problem, device, options).candidates) {
    if (candidate.chosen) return candidate.seconds;
  }
  return 0;
}

int run(const RunOptions& options, const SharedOptions& shared) {
  if (options.out == options.lse)
    fault("-o and --lse both name {}; each result needs a file of its own", options.out);
  check_streams(options);
  const Options attention = attention_options(options);
  const Device device = shared.device();
  const Tensors tensors(device, options);
  const Plan plan(Problem::of(tensors.arguments(), attention), device, shared.plan_options());
  // Made before the work: a place that cannot be written to is known at once.
  OutputFile out_file(options.out);
  const auto lse_file = options.lse.empty() ? nullptr : std::make_unique<OutputFile>(options.lse);

  const Buffer workspace(device, plan.workspace_bytes());
  {
    Progress progress(0);
    progress.show(0, plan.problem().to_string());
    progress.starts(plan.kernel(), expected_seconds(plan.problem(), device, shared.plan_options()));
    plan.run(tensors.arguments(), {.workspace = workspace.bytes()});
  }

  write(out_file, tensors.out());
  if (lse_file) {
    write(*lse_file, tensors.lse());
    lse_file->commit();
  }
  out_file.commit();
  return success;
}

void add_files(CLI::App& command, RunOptions& options) {
  const std::string axes = " .npy file: batch, seq, head, dim (see --layout), float32 or float16";
  command.add_option("q", options.q, "The queries, a" + axes)->required()->type_name("Q");
  command.add_option("k", options.k, "The keys, a" + axes)->required()->type_name("K");
  command.add_option("v", options.v, "The values, a" + axes)->required()->type_name("V");
  command
      .add_option("-o,--out", options.out,
                  "Where the result goes, in q's layout and type; - is standard output")
      ->required()
      ->type_name("FILE");
  command.add_option("--lse", options.lse, "Also write the log-sum-exp: batch, head, seq; float32")
      ->type_name("FILE");
  command
      .add_option(
          "--bias", options.bias,
          "Added to the scores: batch, head, q, kv, with size 1 where broadcast; float32, or "
          "float16 as q")
      ->type_name("FILE");
  command
      .add_option("--mask", options.mask,
                  "True where a pair may attend: batch, head, q, kv, with size 1 where broadcast; "
                  "bool or uint8")
      ->type_name("FILE");
  command.add_option("--alibi", options.alibi, "ALiBi slopes: head, or batch, head; float32")
      ->type_name("FILE");
  command
      .add_option("--sinks", options.sinks,
                  "Logits without a value, one for each query head; float32")
      ->type_name("FILE");
}

void add_numbers(CLI::App& command, RunOptions& options) {
  command.add_flag("--causal", options.causal, "No key after the query's position");
  command
      .add_option("--window", options.window,
                  "Keys from L before to R after the query's position; either may be left out: "
                  "128:0, 128:, :64. With +N also the first N keys: 128:+4")
      ->type_name("L:R[+N]");
  command
      .add_option("--offset", options.offset,
                  "Position of query 0 among the keys. Default: aligned at the end")
      ->type_name("N");
  command.add_option("--scale", options.scale, "Of the scores, finite. Default: 1/√dim")
      ->type_name("X");
  command.add_option("--softcap", options.softcap, "Scores become X·tanh(score/X); 0 is none")
      ->type_name("X");
  command.add_option("--layout", options.layout, "Axes of q, k, v and the result. Default: bshd")
      ->check(CLI::IsMember({"bshd", "bhsd"}).description(""))
      ->type_name("bshd|bhsd");
  command
      .add_option("--dtype", options.dtype,
                  "The type to compute in: q, k and v are rounded to it. Default: that of the "
                  "files")
      ->check(CLI::IsMember({"f32", "f16", "bf16"}).description(""))
      ->type_name("f32|f16|bf16");
}

}  // namespace

void add_run(CLI::App& app, Session& session) {
  const auto options = std::make_shared<RunOptions>();
  CLI::App& command = add_command(
      app, session, "run",
      "Compute attention over NumPy files: softmax(q kᵀ · scale + bias) v.\n"
      "The result is written whole or not at all; what was there stays if anything fails.\n"
      "- stands for standard input, once, or for standard output.",
      {}, [options, &session] { return run(*options, session.options); });
  add_files(command, *options);
  add_numbers(command, *options);
}

}  // namespace rapt::cli
