#include "src/verify/data.hpp"

#include <algorithm>
#include <limits>

#include "src/core/layout.hpp"
#include "src/core/tensors.hpp"
#include "src/core/text.hpp"
#include "src/verify/filler.hpp"
#include "src/verify/random.hpp"

namespace rapt::verify {
namespace {

// A problem that asks for this alignment can have any: for timing, what allocators of GPUs give.
constexpr std::size_t full_alignment = 16, allocator_alignment = 256;

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
  const std::int64_t unused_pages = 3;
  const std::int64_t pages = p.batch * pages_of_sequence(p) + unused_pages;
  // No problem says how its smaller tensors are aligned: a bias as the others, or as little as may
  // be.
  const bool aligned_pairs = fill == Fill::typical || seed / 2 % 2 == 0;
  struct Wanted {
    const TensorRule* rule;
    Tensor tensor;
    std::size_t bytes, alignment;
  };
  std::vector<Wanted> all;
  double bytes = 0;
  for (const TensorRule& rule : tensor_rules()) {
    if (!rule.wanted(p)) continue;
    Tensor tensor = {nullptr, rule.dtype(p), shape_of(p, rule, pages), {}};
    if (const Problem::Strides* planned = strides_in(p, rule)) {
      std::ranges::copy(*planned, tensor.stride.begin());
      tensor.stride[3] = rule.pairs && !(p.*rule.pairs).varies[3] ? 0 : 1;
    } else {
      if (rule.axes(p)[1] == Axis::table_pages) ++tensor.size[1];  // an entry that nobody reads
      tensor.stride = Tensor::dense(nullptr, tensor.dtype, tensor.size).stride;
    }
    const std::int64_t element = size_in_bytes(tensor.dtype);
    const bool aligned = rule.in_layout() || (rule.pairs && aligned_pairs);
    const std::int64_t alignment = std::max(element, aligned ? p.alignment : std::int64_t{1});
    const auto size = static_cast<std::size_t>(
        extent(tensor.size, {tensor.stride[0], tensor.stride[1], tensor.stride[2]}, element)
            .value() *
        element);
    all.push_back({&rule, tensor, size, static_cast<std::size_t>(alignment)});
    bytes += double(size);
  }
  check_host_memory(device, bytes);
  const bool back_guard = seed % 2 == 0;
  for (const auto& [rule, tensor, size, alignment] : all) {
    const bool as_allocated = fill == Fill::typical && alignment == full_alignment;
    const bool written = rule->written(p.operation);
    Guarded memory(device, size, as_allocated ? allocator_alignment : alignment,
                   back_guard || written);
    tensors_.emplace(std::string(rule->name), Owned{rule, std::move(memory), tensor, written});
  }
}

Arguments Data::arguments(bool host) const {
  Arguments result;
  for (const auto& [name, owned] : tensors_) {
    Tensor tensor = owned.tensor;
    tensor.data = host ? const_cast<std::byte*>(owned.memory.image()) : owned.memory.on_device();
    result.*owned.rule->member = tensor;
  }
  return result;
}

Arguments Data::on_host() const { return arguments(true); }
Arguments Data::on_device() const { return arguments(false); }

void Data::refill(std::uint64_t seed, Fill fill) {
  for (auto& [name, owned] : tensors_) owned.memory.clear_image();
  Filler(*this, seed, fill).fill();
}

void Data::spoil_indices(std::uint64_t seed) {
  Random random(seed ^ 0x73706f69u);
  for (auto& [name, owned] : tensors_) {
    if (owned.tensor.dtype != DType::i32) continue;
    auto* index = reinterpret_cast<std::int32_t*>(owned.memory.image());
    for (std::size_t i = 0; i < owned.memory.size() / sizeof(std::int32_t); ++i) {
      constexpr std::int32_t most = std::numeric_limits<std::int32_t>::max();
      if (random.chance(0.5)) continue;
      index[i] = random.one_of<std::int32_t>({-1, -most - 1, most, -1000000, 1000000,
                                              static_cast<std::int32_t>(random.below(1 << 16))});
    }
  }
}

void Data::upload() {
  for (auto& [name, owned] : tensors_) owned.memory.upload();
}

void Data::upload_outputs() {
  for (auto& [name, owned] : tensors_) {
    if (owned.written) owned.memory.upload();
  }
}

std::string Data::changed_input() const {
  for (const auto& [name, owned] : tensors_) {
    if (!owned.written && !owned.memory.unchanged()) return name;
  }
  return "";
}

Results Data::download() const {
  Results results;
  for (const auto& [name, owned] : tensors_) {
    if (owned.written) results.emplace(name, owned.memory.download());
  }
  return results;
}

std::size_t Data::input_bytes() const {
  std::size_t bytes = 0;
  for (const auto& [name, owned] : tensors_) {
    if (!owned.written) bytes += owned.memory.size();
  }
  return bytes;
}

Options options_of(const Problem& p) {
  Options options;
  options.window = p.window;
  options.offset = p.offset;
  options.scale = p.scale;
  options.softcap = p.softcap;
  options.dropout = p.dropout;
  options.batch_invariant = p.batch_invariant;
  options.row_invariant = p.row_invariant;
  options.tf32 = p.tf32;
  if (p.varlen) options.max_q_len = p.q_len;
  if (p.varlen || p.paged()) options.max_kv_len = p.kv_len;
  return options;
}

Arguments one_sequence(const Problem& p, const Arguments& arguments, std::int64_t sequence) {
  Arguments result = arguments;
  for (const TensorRule& rule : tensor_rules()) {
    Tensor& tensor = result.*rule.member;
    const Axis outer = rule.axes(p)[0];
    const bool sliced = outer == Axis::batch || outer == Axis::starts ||
                        (outer == Axis::q_outer && !p.varlen) ||
                        (outer == Axis::kv_outer && !p.varlen && !p.paged());
    if (!tensor.present() || !sliced || tensor.size[0] == 1) continue;
    tensor.data = static_cast<std::byte*>(tensor.data) +
                  sequence * tensor.stride[0] * size_in_bytes(tensor.dtype);
    tensor.size[0] = outer == Axis::starts ? 2 : 1;
  }
  return result;
}

Arguments one_query(const Problem& p, const Arguments& arguments,
                    const semantics::Sequence& sequence, std::int64_t query, std::int64_t keys) {
  Arguments result = one_sequence(p, arguments, sequence.index);
  // A part of an axis. Broadcast ones stay as they are.
  const auto cut = [](Tensor& tensor, std::size_t axis, std::int64_t first, std::int64_t count) {
    tensor.data = static_cast<std::byte*>(tensor.data) +
                  first * tensor.stride[axis] * size_in_bytes(tensor.dtype);
    tensor.size[axis] = count;
  };
  for (const TensorRule& rule : tensor_rules()) {
    Tensor& tensor = result.*rule.member;
    if (!tensor.present()) continue;
    const Axes axes = rule.axes(p);
    for (std::size_t axis = 0; axis < axes.size(); ++axis) {
      if (axes[axis] == Axis::query) cut(tensor, axis, sequence.q_begin + query, 1);
      if (axes[axis] == Axis::key && !p.paged()) cut(tensor, axis, sequence.kv_begin, keys);
      if (axes[axis] == Axis::q_len) cut(tensor, axis, query, 1);
      if (axes[axis] == Axis::kv_len && !p.paged()) cut(tensor, axis, 0, keys);
    }
  }
  result.q_starts = result.kv_starts = {};
  if (!p.paged()) result.kv_lengths = {};
  return result;
}

}  // namespace rapt::verify
