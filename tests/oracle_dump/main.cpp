// Writes problems, their arguments and what the oracle and, of forward, cpu.naive make of them to
// stdout, for the NumPy references in tests/python to check.
//
//   rapt_oracle_dump SEED COUNT [backward]   random problems, of the seeds SEED, SEED + 1, ...
//   rapt_oracle_dump SEED PROBLEM...         these problems, each with the data of SEED
//
// Per problem: one line of JSON that describes it and lists memories, each with its name and its
// number of bytes; then the bytes of these memories, in that order, with nothing between them.
#include <charconv>
#include <cstdint>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "rapt/rapt.hpp"
#include "src/core/call.hpp"
#include "src/core/layout.hpp"
#include "src/core/tensors.hpp"
#include "src/verify/data.hpp"
#include "src/verify/generator.hpp"
#include "src/verify/reference.hpp"

namespace rapt {
namespace {

using nlohmann::json;

json or_null(const std::optional<std::int64_t>& value) { return value ? json(*value) : json(); }

json fields_of(const ScoreTensor& tensor) {
  if (!tensor.present()) return {};
  return {{"dtype", name(tensor.dtype)}, {"varies", tensor.varies}, {"stride", tensor.stride}};
}

json type_of_gradient(DType dtype) { return dtype == DType::none ? json() : json(name(dtype)); }

json fields_of(const Problem& p) {
  return {{"backward", p.operation == Operation::backward},
          {"dtype", name(p.dtype)},
          {"out_dtype", name(p.out_dtype)},
          {"batch", p.batch},
          {"heads", p.heads},
          {"kv_heads", p.kv_heads},
          {"q_len", p.q_len},
          {"kv_len", p.kv_len},
          {"total_q", p.total_q},
          {"total_kv", p.total_kv},
          {"qk_dim", p.qk_dim},
          {"v_dim", p.v_dim},
          {"varlen", p.varlen},
          {"lengths", p.lengths},
          {"page_size", p.page_size},
          {"left", or_null(p.window.left)},
          {"right", or_null(p.window.right)},
          {"first_keys", p.window.first_keys},
          {"offset", or_null(p.offset)},
          {"scale", p.scale},
          {"softcap", p.softcap},
          {"bias", fields_of(p.bias)},
          {"mask", fields_of(p.mask)},
          {"alibi", p.alibi},
          {"alibi_per_sequence", p.alibi_per_sequence},
          {"sinks", p.sinks},
          {"dropout", p.dropout},
          {"lse", p.lse},
          {"batch_invariant", p.batch_invariant},
          {"row_invariant", p.row_invariant},
          {"tf32", p.tf32},
          {"q", p.q},
          {"k", p.k},
          {"v", p.v},
          {"out", p.out},
          {"lse_stride", p.lse_stride},
          {"dq_dtype", type_of_gradient(p.dq_dtype)},
          {"dk_dtype", type_of_gradient(p.dk_dtype)},
          {"dv_dtype", type_of_gradient(p.dv_dtype)},
          {"dbias", fields_of(p.dbias)},
          {"dlse", p.dlse},
          {"dsinks", p.dsinks},
          {"dalibi", p.dalibi},
          {"dout", p.dout},
          {"dq", p.dq},
          {"dk", p.dk},
          {"dv", p.dv},
          {"dlse_stride", p.dlse_stride},
          {"alignment", p.alignment}};
}

// One case on its way out: its description, and the memories that follow it.
class Record {
 public:
  Record(const Problem& problem, std::uint64_t seed) {
    description_ = {{"problem", problem.to_string()},
                    {"seed", seed},
                    {"fields", fields_of(problem)},
                    {"memories", json::array()}};
  }

  // `begin`: bytes before the tensor's first element.
  void add(const std::string& memory_name, const Tensor& tensor, std::vector<std::byte> bytes,
           std::size_t begin) {
    description_["memories"].push_back({{"name", memory_name},
                                        {"dtype", name(tensor.dtype)},
                                        {"size", tensor.size},
                                        {"stride", tensor.stride},
                                        {"bytes", bytes.size()},
                                        {"begin", begin}});
    memories_.push_back(std::move(bytes));
  }

  void write() const {
    std::cout << description_.dump() << '\n';
    for (const std::vector<std::byte>& memory : memories_) {
      std::cout.write(reinterpret_cast<const char*>(memory.data()),
                      static_cast<std::streamsize>(memory.size()));
    }
  }

 private:
  json description_;
  std::vector<std::vector<std::byte>> memories_;
};

void add_inputs(Record& record, const Problem& problem, const Arguments& arguments) {
  for (const TensorRule& rule : tensor_rules()) {
    const Tensor& tensor = arguments.*rule.member;
    if (rule.part(problem.operation).use != Use::reads || !tensor.present()) continue;
    const std::int64_t element = size_in_bytes(tensor.dtype);
    const std::int64_t elements =
        extent(tensor.size, {tensor.stride[0], tensor.stride[1], tensor.stride[2]}, element)
            .value();
    const auto* data = static_cast<const std::byte*>(tensor.data);
    record.add(std::string(rule.name), tensor, {data, data + elements * element}, 0);
  }
}

// The whole memories of what one kernel writes, guards included, as it leaves them.
void add_results(Record& record, const std::string& kernel, const Device& device,
                 verify::Data& data) {
  const Plan plan(data.problem(), device, {.kernel = kernel});
  const Buffer workspace(device, plan.workspace_bytes());
  data.upload();
  const Arguments arguments = data.on_device();
  plan.run(arguments, {.workspace = workspace.bytes()});
  for (const TensorRule& rule : tensor_rules()) {
    const Tensor& tensor = arguments.*rule.member;
    if (rule.part(data.problem().operation).use != Use::writes || !tensor.present()) continue;
    const verify::Guarded& memory = data.memory(rule.name);
    record.add(kernel + " " + std::string(rule.name), tensor, memory.download(), memory.front());
  }
}

// How far any kernel's result may be off (docs/numerics.md): f32, of the sizes of out and lse.
void add_bounds(Record& record, const verify::Data& data) {
  const Problem& problem = data.problem();
  const Arguments arguments = data.on_host();
  const semantics::Call call = make_call(problem, arguments);
  const auto floats_of = [](const Shape& size) {
    return std::vector<float>(static_cast<std::size_t>(size[0] * size[1] * size[2] * size[3]));
  };
  const Tensor& out = arguments.out;
  const Shape lse_size = {out.size[0], out.size[2], out.size[1], 1};
  std::vector<float> out_bounds = floats_of(out.size), lse_bounds = floats_of(lse_size);
  constexpr std::int64_t all_rows = std::int64_t{1} << 40;
  const verify::Reference reference(data, all_rows, 1);
  for (const auto& [row, bounds, plain] : reference.rows()) {
    const semantics::Place place = semantics::query_place(call, row.sequence, row.query);
    const std::int64_t at = (place.outer * out.size[1] + place.row) * out.size[2] + row.head;
    for (std::size_t d = 0; d < bounds.allowed.size(); ++d)
      out_bounds[static_cast<std::size_t>(at * out.size[3]) + d] =
          static_cast<float>(bounds.allowed[d] + verify::smallest_step(problem.out_dtype));
    lse_bounds[static_cast<std::size_t>((place.outer * out.size[2] + row.head) * out.size[1] +
                                        place.row)] = static_cast<float>(bounds.lse_allowed);
  }
  const auto add = [&](const char* name, const Shape& size, const std::vector<float>& floats) {
    const auto* bytes = reinterpret_cast<const std::byte*>(floats.data());
    record.add(name, Tensor::dense(nullptr, DType::f32, size),
               {bytes, bytes + floats.size() * sizeof(float)}, 0);
  };
  add("bounds out", out.size, out_bounds);
  add("bounds lse", lse_size, lse_bounds);
}

void dump(const Problem& problem, std::uint64_t seed) {
  const Device device = Device::cpu();
  verify::Data data(problem, device, seed, verify::Fill::hostile);
  Record record(problem, seed);
  add_inputs(record, problem, data.on_host());
  if (problem.operation == Operation::backward) {
    add_results(record, "cpu.oracle_backward", device, data);
  } else {
    add_results(record, "cpu.oracle", device, data);
    add_results(record, "cpu.naive", device, data);
    add_bounds(record, data);
  }
  record.write();
}

std::optional<std::uint64_t> whole_number(const std::string& digits) {
  std::uint64_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto [rest, error] = std::from_chars(digits.data(), end, value);
  if (error != std::errc() || rest != end) return std::nullopt;
  return value;
}

int run(const std::vector<std::string>& arguments) {
  const auto seed = arguments.empty() ? std::nullopt : whole_number(arguments[0]);
  if (!seed || arguments.size() < 2) {
    std::cerr << "usage: rapt_oracle_dump SEED COUNT [backward] | SEED PROBLEM...\n";
    return 2;
  }
  std::ios::sync_with_stdio(false);
  if (const auto count = whole_number(arguments[1])) {
    const Operation operation = arguments.size() == 3 && arguments[2] == "backward"
                                    ? Operation::backward
                                    : Operation::forward;
    for (std::uint64_t i = 0; i < *count; ++i)
      dump(verify::random_problem(*seed + i, Backend::cpu, operation), *seed + i);
  } else {
    for (std::size_t i = 1; i < arguments.size(); ++i) dump(Problem::parse(arguments[i]), *seed);
  }
  return std::cout.flush() ? 0 : 1;
}

}  // namespace
}  // namespace rapt

int main(int argc, char** argv) {
  try {
    return rapt::run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::cerr << "rapt_oracle_dump: " << error.what() << '\n';
    return 2;
  }
}
