#include "src/verify/generator.hpp"

#include <algorithm>
#include <utility>

#include "src/core/layout.hpp"
#include "src/core/tensors.hpp"
#include "src/semantics/portable.hpp"
#include "src/verify/random.hpp"

namespace rapt::verify {
namespace {

// What is quick: for the oracle, and for the emulator, which runs every thread of a GPU in turn.
struct SizeLimit {
  double multiplications, rows;
  std::int64_t tile;  // queries and keys count in multiples of this
};
constexpr SizeLimit limit_of(Backend backend) {
  return backend == Backend::emu ? SizeLimit{4e7, 250, 64} : SizeLimit{3e6, 1e9, 1};
}

bool exceeds(const Problem& p, SizeLimit limit) {
  const double heads = double(p.batch) * double(p.heads);
  const double pairs = double(semantics::rounded_up(p.q_len, limit.tile)) *
                       double(semantics::rounded_up(p.kv_len, limit.tile));
  return heads * pairs * double(p.qk_dim + p.v_dim) > limit.multiplications ||
         heads * double(p.q_len) > limit.rows;
}

std::int64_t draw_dim(Random& random) {
  return random.one_of<std::int64_t>({1,   2,   3,   4,   5,   8,   16,   24,  31,  32,
                                      33,  40,  64,  64,  64,  72,  80,   96,  128, 128,
                                      128, 160, 192, 256, 257, 512, 1000, 2048});
}

// What a problem is drawn for.
enum class Aim {
  anything,   // small and odd in every way
  main_path,  // of kernels for matrix units: whole tiles, several of keys, few features
  long_rows,
  large_batch,
};

Aim draw_aim(Random& random) {
  const double aim = random.uniform();
  return aim < 0.78   ? Aim::anything
         : aim < 0.92 ? Aim::main_path
         : aim < 0.96 ? Aim::long_rows
                      : Aim::large_batch;
}

void draw_lengths(Random& random, Problem& p, Aim aim) {
  const auto length = [&] {
    return random.one_of<std::int64_t>(
        {1, 1, 2, 3, 15, 16, 17, 31, 33, 64, 65, 100, 127, 128, 130, 200, 256, 300, 700, 1500});
  };
  const auto whole_tiles = [&] {
    return 64 * random.between(2, 9) + (random.chance(0.5) ? 0 : random.between(-20, 20));
  };
  p.q_len = aim == Aim::main_path ? whole_tiles() : length();
  p.kv_len = random.chance(0.4) ? p.q_len : aim == Aim::main_path ? whole_tiles() : length();
  if (aim == Aim::long_rows) {
    p.q_len = random.between(1, 4);
    p.kv_len = random.one_of<std::int64_t>({2000, 4097, 10000, 33000, 70000});
  }
  if (aim == Aim::large_batch) {
    p.q_len = random.between(1, 3);
    p.kv_len = random.between(1, 40);
  }
}

void draw_sizes(Random& random, Problem& p, Aim aim, SizeLimit limit) {
  p.dtype = random.one_of({DType::f32, DType::f16, DType::bf16});
  p.kv_dtype = p.out_dtype = p.dtype;
  p.batch = aim == Aim::large_batch ? random.one_of<std::int64_t>({8, 17, 64, 200, 700})
            : aim == Aim::anything  ? random.one_of<std::int64_t>({1, 1, 2, 3, 5})
                                    : random.between(1, 2);
  p.kv_heads = random.one_of<std::int64_t>({1, 1, 2, 3, 4});
  p.heads = p.kv_heads * random.one_of<std::int64_t>({1, 1, 2, 4, 7});
  if (random.chance(0.08))
    p.heads = p.kv_heads * random.one_of<std::int64_t>({3, 5, 6, 8, 12, 16, 40, 71});
  p.qk_dim = aim == Aim::main_path
                 ? random.one_of<std::int64_t>({32, 64, 64, 96, 128, 128, 192, 256})
                 : draw_dim(random);
  p.v_dim = random.chance(0.25) ? draw_dim(random) : p.qk_dim;
  draw_lengths(random, p, aim);
  if (random.chance(0.03)) p.q_len = 0;
  if (random.chance(0.03)) p.kv_len = 0;
  if (random.chance(0.02)) p.batch = 0;
  if (aim != Aim::anything) {  // what is aimed at goes last
    limit.multiplications *= 4;
    while (exceeds(p, limit) && (p.batch > 1 || p.heads > 1) && aim != Aim::large_batch) {
      p.batch = (p.batch + 1) / 2;
      p.heads = p.kv_heads = 1;
    }
    while (exceeds(p, limit) && p.qk_dim > 32 && aim != Aim::main_path)
      p.qk_dim = p.v_dim = (p.qk_dim + 1) / 2;
  }
  while (exceeds(p, limit)) {
    switch (random.below(4)) {
      case 0: p.q_len = (p.q_len + 1) / 2; break;
      case 1: p.kv_len = (p.kv_len + 1) / 2; break;
      case 2: p.batch = (p.batch + 1) / 2; break;
      default: p.heads = p.kv_heads; p.qk_dim = (p.qk_dim + 1) / 2;
    }
  }
}

void draw_storage(Random& random, Problem& p) {
  p.varlen = random.chance(0.25);
  p.lengths = random.chance(0.3);
  if (random.chance(0.25)) p.page_size = random.one_of<std::int64_t>({1, 2, 7, 16, 16, 64, 256});
  p.total_q = p.batch * p.q_len;
  p.total_kv = p.batch * p.kv_len;
  const bool packed_keys = p.varlen && !p.paged();
  if (p.varlen && random.chance(0.5)) p.total_q = random.between(0, p.total_q + 3);
  if (packed_keys && random.chance(0.5)) p.total_kv = random.between(0, p.total_kv + 3);
  if (p.lengths && !packed_keys && random.chance(0.3)) p.total_kv = random.between(0, p.total_kv);
}

void draw_visibility(Random& random, Problem& p) {
  if (random.chance(0.4))
    p.window.right = 0;
  else if (random.chance(0.2))
    p.window.right = random.between(0, p.kv_len + 2);
  if (random.chance(0.25)) p.window.left = random.between(0, p.kv_len + 2);
  if (random.chance(0.25)) p.offset = random.between(-p.q_len - 3, p.kv_len + 3);
}

void draw_pairs(Random& random, Problem& p, const TensorRule& rule, DType dtype) {
  ScoreTensor& tensor = p.*rule.pairs;
  tensor.dtype = dtype;
  const Shape full = {p.batch, p.heads, p.q_len, p.kv_len};
  for (std::size_t axis = 0; axis < 4; ++axis) {
    tensor.varies[axis] = full[axis] != 1 && random.chance(0.6);
  }
  const Shape shape = shape_of(p, rule);
  tensor.stride = dense_row_major(shape);
  if (random.chance(0.2)) {
    // Longer rows in memory than in the tensor, as in a slice.
    const std::int64_t row = shape[3] + random.between(1, 9);
    tensor.stride = without_idle_axes({row * shape[2] * shape[1], row * shape[2], row}, shape);
  }
}

void draw_scores(Random& random, Problem& p) {
  p.scale = default_scale(p.qk_dim);
  if (random.chance(0.2)) p.scale = static_cast<float>(random.between(-10, 40)) / 64;
  if (random.chance(0.2)) p.softcap = random.one_of({1.0f, 15.0f, 30.0f, 50.0f});
  if (random.chance(0.25))
    draw_pairs(random, p, tensor_rule("bias"), random.chance(0.5) ? DType::f32 : p.dtype);
  if (random.chance(0.25)) draw_pairs(random, p, tensor_rule("mask"), DType::u8);
  p.alibi = random.chance(0.2);
  p.sinks = random.chance(0.2);
  p.lse = random.chance(0.5);
}

void draw_gradient_types(Random& random, Problem& p) {
  for (DType Problem::*dtype : {&Problem::dq_dtype, &Problem::dk_dtype, &Problem::dv_dtype})
    p.*dtype = random.chance(0.2) ? DType::f32 : p.dtype;
}

void draw_gradients(Random& random, Problem& p) {
  p.lse = true;
  p.dlse = random.chance(0.4);
  p.dsinks = p.sinks && random.chance(0.7);
  p.dalibi = p.alibi && random.chance(0.7);
  if (!p.bias.present() || random.chance(0.3)) return;
  p.dbias.dtype = random.chance(0.5) ? DType::f32 : p.bias.dtype;
  p.dbias.varies = p.bias.varies;
  p.dbias.stride = dense_row_major(shape_of(p, tensor_rule("dbias")));
}

// Dense in either layout, or with room between rows and heads, or with a broadcast axis (inputs
// only).
Problem::Strides draw_strides(Random& random, const Shape& shape, Layout layout, bool is_input) {
  Problem::Strides strides = dense_strides(shape, layout);
  if (random.chance(0.25)) {
    Shape roomy = shape;
    roomy[3] += random.one_of<std::int64_t>({1, 2, 3, 8, 16, 64});
    roomy[1] += random.between(0, 3);
    roomy[2] += random.between(0, 3);
    strides = without_idle_axes(dense_strides(roomy, layout), shape);
  }
  if (is_input && random.chance(0.1)) strides[static_cast<std::size_t>(random.below(3))] = 0;
  return strides;
}

void draw_layout(Random& random, Problem& p) {
  const Layout layout = random.chance(0.35) ? Layout::bhsd : Layout::bshd;
  for (const TensorRule& rule : tensor_rules()) {
    if (!rule.in_layout() || !rule.wanted(p)) continue;
    const Shape shape = shape_of(p, rule);
    Problem::Strides& strides = p.*rule.strides;
    strides = draw_strides(random, shape, layout, !rule.written(p.operation));
    // Pages must stay apart: each holds other keys.
    if (p.paged() && rule.axes(p)[0] == Axis::kv_outer && strides[0] == 0)
      strides = dense_strides(shape, layout);
  }
  for (const TensorRule& rule : tensor_rules()) {
    if (rule.form != TensorInfo::Form::logsumexp || !rule.wanted(p)) continue;
    const Shape shape = shape_of(p, rule);
    p.*rule.strides = dense_row_major(shape);
    if (random.chance(0.3)) {  // [batch, seq, head] in memory, with room
      const std::int64_t row = shape[1] + random.between(0, 3);
      p.*rule.strides = without_idle_axes({row * shape[2], 1, row}, shape);
    }
  }
  p.alignment = alignment_of_strides(p);
  const std::int64_t element = size_in_bytes(p.dtype);
  if (random.chance(0.25)) p.alignment = std::max(element, p.alignment >> random.between(1, 3));
}

void set_dense_layout(Problem& p) {
  for (const TensorRule& rule : tensor_rules()) {
    if (rule.in_layout() && rule.wanted(p))
      p.*rule.strides = dense_strides(shape_of(p, rule), Layout::bshd);
  }
  if (p.lse) p.lse_stride = dense_row_major(shape_of(p, tensor_rule("lse")));
  p.alignment = alignment_of_strides(p);
}

using Feature = std::pair<const char*, bool (*)(const Problem&)>;

constexpr Feature features[] = {
    {"f32", [](const Problem& p) { return p.dtype == DType::f32; }},
    {"f16", [](const Problem& p) { return p.dtype == DType::f16; }},
    {"bf16", [](const Problem& p) { return p.dtype == DType::bf16; }},
    {"f32 out", [](const Problem& p) { return p.out_dtype != p.dtype; }},
    {"grouped heads", [](const Problem& p) { return p.heads != p.kv_heads && p.kv_heads > 1; }},
    {"multi-query", [](const Problem& p) { return p.heads > 1 && p.kv_heads == 1; }},
    {"q·k dim ≠ v dim", [](const Problem& p) { return p.qk_dim != p.v_dim; }},
    {"groups above 8", [](const Problem& p) { return p.heads > 8 * p.kv_heads; }},
    {"wide heads", [](const Problem& p) { return std::max(p.qk_dim, p.v_dim) > 256; }},
    {"q ≠ kv length", [](const Problem& p) { return p.q_len != p.kv_len; }},
    {"one query", [](const Problem& p) { return p.q_len == 1; }},
    {"long rows", [](const Problem& p) { return p.kv_len >= 2000; }},
    {"large batch", [](const Problem& p) { return p.batch > 16; }},
    {"tiles of 16 bits, aligned",
     [](const Problem& p) {
       return p.dtype != DType::f32 && p.alignment == 16 && p.q_len >= 64 && p.kv_len >= 192;
     }},
    {"no queries", [](const Problem& p) { return p.q_len == 0; }},
    {"no keys", [](const Problem& p) { return p.kv_len == 0; }},
    {"no sequences", [](const Problem& p) { return p.batch == 0; }},
    {"causal", [](const Problem& p) { return p.causal(); }},
    {"window left", [](const Problem& p) { return p.window.left.has_value(); }},
    {"first keys", [](const Problem& p) { return p.window.first_keys > 0; }},
    {"window right", [](const Problem& p) { return p.window.right.value_or(0) > 0; }},
    {"offset", [](const Problem& p) { return p.offset.has_value(); }},
    {"bias", [](const Problem& p) { return p.bias.present(); }},
    {"f32 bias",
     [](const Problem& p) { return p.bias.dtype == DType::f32 && p.dtype != DType::f32; }},
    {"mask", [](const Problem& p) { return p.mask.present(); }},
    {"alibi", [](const Problem& p) { return p.alibi; }},
    {"alibi of sequences", [](const Problem& p) { return p.alibi_per_sequence; }},
    {"soft cap", [](const Problem& p) { return p.softcap > 0; }},
    {"sinks", [](const Problem& p) { return p.sinks; }},
    {"dropout", [](const Problem& p) { return p.dropout > 0; }},
    {"varlen", [](const Problem& p) { return p.varlen; }},
    {"kv_lengths", [](const Problem& p) { return p.lengths; }},
    {"pages", [](const Problem& p) { return p.paged(); }},
    {"varlen with pages", [](const Problem& p) { return p.varlen && p.paged(); }},
    {"strides", [](const Problem& p) { return p.to_string().find('@') != std::string::npos; }},
    {"bhsd", [](const Problem& p) { return p.to_string().find("bhsd") != std::string::npos; }},
    {"alignment", [](const Problem& p) { return p.alignment < 16; }},
    {"scale", [](const Problem& p) { return p.scale != default_scale(p.qk_dim); }},
    {"lse", [](const Problem& p) { return p.lse; }},
    {"batch-invariant", [](const Problem& p) { return p.batch_invariant; }},
    {"row-invariant", [](const Problem& p) { return p.row_invariant; }},
    {"tf32", [](const Problem& p) { return p.tf32; }},
};
constexpr Feature gradient_features[] = {
    {"f32 gradients", [](const Problem& p) { return p.dq_dtype != p.dtype; }},
    {"dlse", [](const Problem& p) { return p.dlse; }},
    {"dbias", [](const Problem& p) { return p.dbias.present(); }},
    {"dbias summed over all",
     [](const Problem& p) { return p.dbias.present() && p.dbias.varies == std::array<bool, 4>{}; }},
    {"dsinks", [](const Problem& p) { return p.dsinks; }},
    {"dalibi", [](const Problem& p) { return p.dalibi; }},
};

// Beside those of forward.
std::vector<Feature> features_of_operation(Operation operation) {
  std::vector<Feature> result(std::begin(features), std::end(features));
  if (operation == Operation::backward) {
    std::erase_if(result, [](const Feature& feature) {
      const std::string_view name = feature.first;
      return name.find("pages") != std::string_view::npos || name == "row-invariant";
    });
    result.insert(result.end(), std::begin(gradient_features), std::end(gradient_features));
  }
  return result;
}

}  // namespace

Problem random_problem(std::uint64_t seed, Backend backend, Operation operation) {
  Random random(seed);
  Problem p;
  p.operation = operation;
  const bool backward = operation == Operation::backward;
  const Aim aim = draw_aim(random);
  draw_sizes(random, p, aim, limit_of(backend));
  if (backward) draw_gradient_types(random, p);
  const bool few_features = aim == Aim::main_path && random.chance(0.7);
  if (few_features) {
    p.total_q = p.batch * p.q_len;
    p.total_kv = p.batch * p.kv_len;
    if (random.chance(0.5)) p.window.right = 0;
    p.scale = default_scale(p.qk_dim);
    p.lse = random.chance(0.5) || backward;
    set_dense_layout(p);
  } else {
    draw_storage(random, p);
    if (backward) p.page_size = 0;
    draw_visibility(random, p);
    draw_scores(random, p);
    if (backward) draw_gradients(random, p);
    draw_layout(random, p);
  }
  p.batch_invariant = random.chance(0.2);
  p.tf32 = p.dtype == DType::f32 && random.chance(0.2);
  if (p.dtype != DType::f32 && random.chance(0.15)) {
    p.out_dtype = DType::f32;
    p.alignment = std::min(p.alignment, alignment_of_strides(p));
  }
  p.alibi_per_sequence = p.alibi && random.chance(0.4);
  if (p.window.left && random.chance(0.5))
    p.window.first_keys =
        random.chance(0.5) ? random.between(1, 8) : random.between(1, p.kv_len + 2);
  if (random.chance(0.1) && !p.batch_invariant)
    p.dropout = float(random.one_of<std::int64_t>({26, 26, 51, 128, random.between(1, 255)})) / 256;
  if (random.chance(0.4) && !backward) p.row_invariant = p.batch_invariant;
  p.validate();
  return p;
}

Problem problem_within(const Problem& problem, std::uint64_t seed) {
  Random random(seed ^ 0x626f756eu);
  const auto less = [&](std::int64_t bound) {
    return random.chance(0.3) ? bound : random.between(0, bound);
  };
  Problem p = problem;
  p.batch = less(p.batch);
  if (p.varlen) {
    p.total_q = less(p.total_q);
    if (!p.paged()) p.total_kv = less(p.total_kv);
  } else {
    p.q_len = less(p.q_len);
    if (!p.paged()) p.kv_len = less(p.kv_len);
    p.total_q = p.batch * p.q_len;
  }
  if (!p.varlen || p.paged()) p.total_kv = p.batch * p.kv_len;
  const Shape full = {p.batch, p.heads, p.q_len, p.kv_len};
  for (const TensorRule& rule : tensor_rules()) {
    for (std::size_t axis = 0; rule.pairs && axis < 4; ++axis) {
      bool& varies = (p.*rule.pairs).varies[axis];
      varies = varies && full[axis] != 1;
    }
    if (Problem::Strides* strides = strides_in(p, rule); strides && rule.wanted(p))
      *strides = without_idle_axes(*strides, shape_of(p, rule));
  }
  p.validate();
  return p;
}

std::vector<std::string> features_of(const Problem& problem) {
  std::vector<std::string> result;
  for (const auto& [name, shows] : features_of_operation(problem.operation)) {
    if (shows(problem)) result.emplace_back(name);
  }
  return result;
}

std::vector<std::string> all_features(Operation operation) {
  std::vector<std::string> result;
  for (const auto& [name, shows] : features_of_operation(operation)) result.emplace_back(name);
  return result;
}

}  // namespace rapt::verify
