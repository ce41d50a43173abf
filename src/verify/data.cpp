#include "src/verify/data.hpp"

#include <algorithm>

#include "src/core/arguments.hpp"
#include "src/core/layout.hpp"
#include "src/core/text.hpp"
#include "src/verify/filler.hpp"
#include "src/verify/random.hpp"

namespace rapt::verify {
namespace {

const std::map<std::string, Tensor Arguments::*>& members() {
  static const std::map<std::string, Tensor Arguments::*> map(named_tensors.begin(),
                                                              named_tensors.end());
  return map;
}

// A problem that asks for this alignment can have any: for timing, what allocators of GPUs give.
constexpr std::size_t full_alignment = 16, allocator_alignment = 256;

bool is_output(const std::string& name) { return name == "out" || name == "lse"; }

// Images of all tensors are on the host, and on the CPU the tensors too. What exceeds the machine
// is refused here: the system would promise it, and end the process at its use.
void check_host_memory(const Device& device, double tensor_bytes) {
  const double bytes = device.backend == Backend::cpu ? 2 * tensor_bytes : tensor_bytes;
  const double limit = Device::cpu(1).nominal.memory_bytes;  // 0: unknown
  if (limit == 0 || bytes <= limit) return;
  throw Error(ErrorCode::out_of_memory,
              text("the problem's tensors and their images take ", human_bytes(bytes),
                   "; this machine has ", human_bytes(limit), " of memory"));
}

std::int64_t pages_of_sequence(const Problem& p) {
  return p.paged() ? (p.kv_len + p.page_size - 1) / p.page_size : 0;
}

}  // namespace

Data::Data(const Problem& problem, const Device& device, std::uint64_t seed, Fill fill)
    : problem_(problem) {
  allocate(device, seed, fill);
  Filler(*this, seed, fill).fill();
}

void Data::allocate(const Device& device, std::uint64_t seed, Fill fill) {
  const Problem& p = problem_;
  struct Wanted {
    const char* name;
    Tensor tensor;
    std::size_t bytes, alignment;
  };
  std::vector<Wanted> all;
  const auto add = [&](const char* name, DType dtype, const Shape& shape,
                       const Problem::Strides& strides, std::int64_t last_stride,
                       std::int64_t alignment) {
    const std::int64_t element = size_in_bytes(dtype);
    const auto bytes = static_cast<std::size_t>(extent(shape, strides, element).value() * element);
    const Tensor tensor = {
        nullptr, dtype, shape, {strides[0], strides[1], strides[2], last_stride}};
    all.push_back({name, tensor, bytes, static_cast<std::size_t>(alignment)});
  };
  const auto add_vector = [&](const char* name, DType dtype, std::int64_t count) {
    const Shape shape = {count, 1, 1, 1};
    add(name, dtype, shape, {1, 1, 1}, 1, size_in_bytes(dtype));
  };
  const auto add_score = [&](const char* name, const ScoreTensor& tensor) {
    if (!tensor.present()) return;
    // No problem says how they are aligned: as its other tensors, or as little as they may be.
    const bool aligned = fill == Fill::typical || seed / 2 % 2 == 0;
    const std::int64_t element = size_in_bytes(tensor.dtype);
    add(name, tensor.dtype, score_shape(p, tensor), tensor.stride, tensor.varies[3] ? 1 : 0,
        aligned ? std::max(p.alignment, element) : element);
  };
  const std::int64_t unused_pages = 3;
  const std::int64_t pages = p.batch * pages_of_sequence(p) + unused_pages;
  add("q", p.dtype, q_shape(p), p.q, 1, p.alignment);
  add("k", p.dtype, k_shape(p, pages), p.k, 1, p.alignment);
  add("v", p.dtype, v_shape(p, pages), p.v, 1, p.alignment);
  add("out", p.dtype, out_shape(p), p.out, 1, p.alignment);
  if (p.lse) add("lse", DType::f32, lse_shape(p), p.lse_stride, 1, size_in_bytes(DType::f32));
  add_score("bias", p.bias);
  add_score("mask", p.mask);
  if (p.alibi) add_vector("alibi", DType::f32, p.heads);
  if (p.sinks) add_vector("sinks", DType::f32, p.heads);
  if (p.varlen) add_vector("q_starts", DType::i32, p.batch + 1);
  if (p.varlen && !p.paged()) add_vector("kv_starts", DType::i32, p.batch + 1);
  if (p.lengths) add_vector("kv_lengths", DType::i32, p.batch);
  if (p.paged()) {
    const std::int64_t columns = pages_of_sequence(p) + 1;
    add("page_table", DType::i32, {p.batch, columns, 1, 1}, {columns, 1, 1}, 1,
        size_in_bytes(DType::i32));
  }

  double bytes = 0;
  for (const Wanted& wanted : all) bytes += double(wanted.bytes);
  check_host_memory(device, bytes);
  const bool back_guard = seed % 2 == 0;
  for (const auto& [name, tensor, size, alignment] : all) {
    const bool as_allocated = fill == Fill::typical && alignment == full_alignment;
    Guarded memory(device, size, as_allocated ? allocator_alignment : alignment,
                   back_guard || is_output(name));
    tensors_.emplace(name, Owned{std::move(memory), tensor});
  }
}

Arguments Data::arguments(bool host) const {
  Arguments result;
  for (const auto& [name, owned] : tensors_) {
    Tensor tensor = owned.tensor;
    tensor.data = host ? const_cast<std::byte*>(owned.memory.image()) : owned.memory.on_device();
    result.*members().at(name) = tensor;
  }
  return result;
}

Arguments Data::on_host() const { return arguments(true); }
Arguments Data::on_device() const { return arguments(false); }

void Data::refill(std::uint64_t seed, Fill fill) {
  for (auto& [name, owned] : tensors_) owned.memory.clear_image();
  Filler(*this, seed, fill).fill();
}

void Data::upload() {
  for (auto& [name, owned] : tensors_) owned.memory.upload();
}

void Data::upload_outputs() {
  for (auto& [name, owned] : tensors_) {
    if (is_output(name)) owned.memory.upload();
  }
}

std::string Data::changed_input() const {
  for (const auto& [name, owned] : tensors_) {
    if (!is_output(name) && !owned.memory.unchanged()) return name;
  }
  return "";
}

const Guarded* Data::lse() const {
  const auto found = tensors_.find("lse");
  return found == tensors_.end() ? nullptr : &found->second.memory;
}

std::size_t Data::input_bytes() const {
  std::size_t bytes = 0;
  for (const auto& [name, owned] : tensors_) {
    if (!is_output(name)) bytes += owned.memory.size();
  }
  return bytes;
}

Options options_of(const Problem& p) {
  Options options;
  options.window = p.window;
  options.offset = p.offset;
  options.scale = p.scale;
  options.softcap = p.softcap;
  options.batch_invariant = p.batch_invariant;
  options.tf32 = p.tf32;
  if (p.varlen) options.max_q_len = p.q_len;
  if (p.varlen || p.paged()) options.max_kv_len = p.kv_len;
  return options;
}

Arguments one_sequence(const Problem& p, const Arguments& arguments, std::int64_t sequence) {
  Arguments result = arguments;
  const auto slice = [&](Tensor& tensor, std::int64_t count) {
    if (!tensor.present() || tensor.size[0] == 1) return;
    tensor.data = static_cast<std::byte*>(tensor.data) +
                  sequence * tensor.stride[0] * size_in_bytes(tensor.dtype);
    tensor.size[0] = count;
  };
  if (!p.varlen) {
    slice(result.q, 1);
    slice(result.out, 1);
    slice(result.lse, 1);
    if (!p.paged()) {
      slice(result.k, 1);
      slice(result.v, 1);
    }
  }
  slice(result.bias, 1);
  slice(result.mask, 1);
  slice(result.q_starts, 2);
  slice(result.kv_starts, 2);
  slice(result.kv_lengths, 1);
  slice(result.page_table, 1);
  return result;
}

}  // namespace rapt::verify
