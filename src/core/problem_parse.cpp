// Problem::parse: a problem from its text form. Problem::to_string (problem_print.cpp) is its
// inverse.
//
// A problem string is a list of tokens in any order; each is a name of letters and the rest that
// belongs to it, as in `window` `128:0`. Parsing first collects the tokens into a Draft, then
// builds the problem, so that a token may lean on one that comes after it. docs/architecture.md
// lists the tokens.
#include <algorithm>
#include <cctype>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include "src/core/closest.hpp"
#include "src/core/layout.hpp"
#include "src/core/problem_tokens.hpp"
#include "src/core/tensors.hpp"
#include "src/core/text.hpp"
#include "src/core/validate.hpp"

namespace rapt {
namespace {

struct Token {
  std::string_view whole, name, rest;  // "window128:0", "window", "128:0"
  std::size_t column;                  // from 1
};

// Collects tokens, checks each on its own, and remembers which were there.
class Draft {
 public:
  explicit Draft(std::string_view problem) : problem_(problem) {}

  void read_all() {
    std::size_t at = 0;
    while (true) {
      at = problem_.find_first_not_of(" \t\n", at);
      if (at == std::string_view::npos) return;
      const std::size_t end = std::min(problem_.find_first_of(" \t\n", at), problem_.size());
      const std::string_view whole = problem_.substr(at, end - at);
      std::size_t letters = 0;
      while (letters < whole.size() && in_a_name(whole[letters])) ++letters;
      token_ = {whole, whole.substr(0, letters), whole.substr(letters), at + 1};
      read_older_name();
      read();
      at = end;
    }
  }

  Problem build() const;

 private:
  static bool in_a_name(char c) { return c == '_' || std::isalpha(static_cast<unsigned char>(c)); }

  // Files and scripts may have the names that tokens had before the arguments'.
  void read_older_name() {
    if (token_.name == "lengths") token_.name = "kv_lengths";
    if (token_.whole == "sink") token_.whole = "sinks";
  }

  template <class... Parts>
  [[noreturn]] void fault(const Parts&... parts) const {
    throw Error(ErrorCode::invalid_argument,
                text("cannot read '", token_.whole, "' at character ", token_.column,
                     " of the problem: ", parts..., "; tokens are ", problem_token_list()));
  }
  template <class... Parts>
  [[noreturn]] static void incomplete(const Parts&... parts) {
    throw Error(ErrorCode::invalid_argument, text("the problem is incomplete: ", parts...,
                                                  "; tokens are ", problem_token_list()));
  }

  void once(std::string_view slot) {
    if (!slots_.insert(std::string(slot)).second) {
      fault(slot == token_.name || slot == token_.whole
                ? "it stands there twice"
                : text("the ", slot, " stands there twice"));
    }
  }
  bool given(std::string_view slot) const { return slots_.contains(std::string(slot)); }

  std::int64_t integer(std::string_view digits) const {
    const auto value = parse_number<std::int64_t>(digits);
    if (!value) fault("'", digits, "' is not a whole number of 64 bits");
    return *value;
  }
  template <class Number = float>
  Number real(std::string_view digits) const {
    const auto value = parse_number<Number>(digits);
    if (!value)
      fault("'", digits, "' is not a number that fits ", sizeof(Number) == 4 ? "f32" : "f64");
    return *value;
  }

  // "32/8" as (32, 8); "32" as (32, 32).
  std::pair<std::int64_t, std::int64_t> pair(std::string_view digits) const {
    const std::size_t slash = digits.find('/');
    if (slash == std::string_view::npos) return {integer(digits), integer(digits)};
    return {integer(digits.substr(0, slash)), integer(digits.substr(slash + 1))};
  }

  // "@4096,512,128"
  Problem::Strides strides() const {
    std::string_view digits = token_.rest.substr(1);
    Problem::Strides result = {};
    for (std::size_t axis = 0; axis < 3; ++axis) {
      const std::size_t comma = axis < 2 ? digits.find(',') : digits.size();
      if (comma == std::string_view::npos)
        fault("three strides are wanted, as in ", token_.name, "@4096,512,128");
      result[axis] = integer(digits.substr(0, comma));
      digits.remove_prefix(std::min(comma + 1, digits.size()));
    }
    return result;
  }

  // ":hqk" or ":hqk:f32"
  ScoreTensor score_tensor(DType dtype) const {
    if (token_.rest.empty() || token_.rest[0] != ':')
      fault("axes are wanted, as in ", token_.name, ":hqk");
    ScoreTensor result;
    result.dtype = dtype;
    std::string_view axes = token_.rest.substr(1);
    if (const std::size_t colon = axes.find(':'); colon != std::string_view::npos) {
      if (token_.name != "bias" || axes.substr(colon + 1) != "f32")
        fault("only a bias has a type, and only f32 is written");
      result.dtype = DType::f32;
      axes = axes.substr(0, colon);
    }
    if (axes == "1") return result;  // broadcast over all axes
    std::size_t last = 0;
    for (const char letter : axes) {
      const std::size_t axis = score_axis_letters.find(letter);
      if (axis == std::string_view::npos)
        fault("'", letter, "' is not an axis; they are b, h, q and k");
      if (axis + 1 <= last) fault("axes are written once each, in the order b, h, q, k");
      result.varies[axis] = true;
      last = axis + 1;
    }
    if (last == 0)
      fault("axes are wanted, as in ", token_.name, ":hqk, or ", token_.name, ":1 for none");
    return result;
  }

  // "128", "128:64" or ":64"; "+4" after a left bound
  void read_window() {
    const std::size_t plus = token_.rest.find('+');
    const std::string_view bounds = token_.rest.substr(0, plus);
    const std::size_t colon = bounds.find(':');
    const std::string_view left = bounds.substr(0, colon);
    if (!left.empty()) window_.left = integer(left);
    if (colon != std::string_view::npos) window_.right = integer(bounds.substr(colon + 1));
    if (plus != std::string_view::npos) window_.first_keys = integer(token_.rest.substr(plus + 1));
    if (!window_.left && !window_.right)
      fault("a bound is wanted, as in window128, window128:64 or window:64");
  }

  static std::optional<DType> element_type(std::string_view word) {
    for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
      if (word == name(type)) return type;
    }
    return std::nullopt;
  }

  // kv:f16, out:f32, dq:f32
  bool read_type() {
    const auto known = types_.find(token_.name);
    if (known == types_.end() || !token_.rest.starts_with(':')) return false;
    once(text(token_.name, ":"));
    known->second = element_type(token_.rest.substr(1));
    if (!known->second) fault("a type is wanted, as in ", token_.name, ":f32");
    return true;
  }
  DType type_of(std::string_view name, DType otherwise) const {
    return types_.find(name)->second.value_or(otherwise);
  }

  // ":bias,sinks,alibi", each once; nothing: none of them
  void read_gradients() {
    fields_.operation = Operation::backward;
    fields_.lse = true;
    std::string_view names = token_.rest;
    if (names.empty()) return;
    const std::map<std::string_view, bool*> known = {
        {"bias", &dbias_}, {"sinks", &fields_.dsinks}, {"alibi", &fields_.dalibi}};
    const auto wrong = [&] {
      fault("gradients beside dq, dk and dv are bias, sinks and alibi, as in backward:bias,sinks");
    };
    if (names[0] != ':') wrong();
    while (!names.empty()) {
      names.remove_prefix(1);
      const std::string_view one = names.substr(0, names.find(','));
      const auto found = known.find(one);
      if (found == known.end() || *found->second) wrong();
      *found->second = true;
      names.remove_prefix(one.size());
    }
  }

  bool read_flag() {
    static const std::map<std::string_view, bool Problem::*> flags = {{"sinks", &Problem::sinks},
                                                                      {"lse", &Problem::lse},
                                                                      {"dlse", &Problem::dlse},
                                                                      {"tf32", &Problem::tf32}};
    const auto flag = flags.find(token_.whole);
    if (flag == flags.end()) return false;
    once(token_.whole);
    fields_.*(flag->second) = true;
    return true;
  }

  bool read_word() {
    const std::string_view word = token_.whole;
    if (const auto type = element_type(word)) {
      once("element type");
      fields_.dtype = *type;
    } else if (word == "bshd" || word == "bhsd") {
      once("layout");
      layout_ = word == "bshd" ? Layout::bshd : Layout::bhsd;
    } else if (word == "alibi" || word == "alibi:b") {
      once("alibi");
      fields_.alibi = true;
      fields_.alibi_per_sequence = word == "alibi:b";
    } else if (word == "batch-invariant" || word == "batch-invariant:rows") {
      once("batch-invariant");
      fields_.batch_invariant = true;
      fields_.row_invariant = word != "batch-invariant";
    } else if (word == "causal") {
      once("causal");
    } else {
      return read_flag();
    }
    return true;
  }

  // Tokens with a value: what each sets.
  bool read_value() {
    using Reader = void (*)(Draft&, Problem&, std::string_view rest);
    static const std::map<std::string_view, Reader> readers = {
        {"b", [](Draft& d, Problem& p, std::string_view rest) { p.batch = d.integer(rest); }},
        {"h", [](Draft& d, Problem& p,
                 std::string_view rest) { std::tie(p.heads, p.kv_heads) = d.pair(rest); }},
        {"d", [](Draft& d, Problem& p,
                 std::string_view rest) { std::tie(p.qk_dim, p.v_dim) = d.pair(rest); }},
        {"window", [](Draft& d, Problem&, std::string_view) { d.read_window(); }},
        {"offset", [](Draft& d, Problem& p, std::string_view rest) { p.offset = d.integer(rest); }},
        {"bias",
         [](Draft& d, Problem& p, std::string_view) { p.bias = d.score_tensor(DType::none); }},
        {"mask",
         [](Draft& d, Problem& p, std::string_view) { p.mask = d.score_tensor(DType::u8); }},
        {"softcap",
         [](Draft& d, Problem& p, std::string_view rest) {
           p.softcap = d.real(rest);
           if (p.softcap == 0) d.fault("a soft cap is above 0; leave the token out for none");
         }},
        {"dropout",
         [](Draft& d, Problem& p, std::string_view rest) {
           const auto dropout = d.real<double>(rest);
           if (dropout == 0) d.fault("a probability is above 0; leave the token out for none");
           p.dropout = rounded_dropout(dropout);
         }},
        {"scale", [](Draft& d, Problem& p, std::string_view rest) { p.scale = d.real(rest); }},
        {"backward", [](Draft& d, Problem&, std::string_view) { d.read_gradients(); }},
        {"align",
         [](Draft& d, Problem& p, std::string_view rest) {
           p.alignment = d.integer(rest);
           const bool power_of_two = p.alignment > 0 && (p.alignment & (p.alignment - 1)) == 0;
           if (!power_of_two || p.alignment > 16) d.fault("an alignment is 1, 2, 4, 8 or 16 bytes");
         }},
        {"page",
         [](Draft& d, Problem& p, std::string_view rest) {
           p.page_size = d.integer(rest);
           if (p.page_size < 1) d.fault("a page holds 1 token or more");
         }},
        {"varlen",
         [](Draft& d, Problem& p, std::string_view rest) {
           p.varlen = true;
           if (!rest.empty()) d.totals_ = d.pair(rest);
           d.two_totals_ = rest.find('/') != std::string_view::npos;
         }},
        {"kv_lengths",
         [](Draft& d, Problem& p, std::string_view rest) {
           p.lengths = true;
           if (!rest.empty()) d.expected_kv_ = d.integer(rest);
         }},
    };
    const auto reader = readers.find(token_.name);
    if (reader == readers.end()) return false;
    once(token_.name);
    reader->second(*this, fields_, token_.rest);
    return true;
  }

  // s2048 is q2048 kv2048.
  bool read_length() {
    const bool both = token_.name == "s";
    if (both || token_.name == "q") once("query length"), fields_.q_len = integer(token_.rest);
    if (both || token_.name == "kv") once("kv length"), fields_.kv_len = integer(token_.rest);
    return both || token_.name == "q" || token_.name == "kv";
  }

  bool read_strides() {
    if (token_.rest.empty() || token_.rest[0] != '@') return false;
    std::string known;
    for (const TensorRule& rule : tensor_rules()) {
      if (strides_in(fields_, rule)) known += text(known.empty() ? "" : ", ", rule.name);
    }
    if (text(", ", known, ",").find(text(", ", token_.name, ",")) == std::string::npos)
      fault("strides belong to one of ", known);
    once(text(token_.name, "@"));
    strides_[std::string(token_.name)] = strides();
    return true;
  }

  // Tokens that can be mistyped: those that are not a letter and a number.
  static std::vector<std::string_view> words() {
    std::vector<std::string_view> result;
    for (const ProblemToken& token : problem_tokens()) {
      const std::string_view first = token.forms.substr(0, token.forms.find(' '));
      if (first.size() > 2 && std::isalpha(static_cast<unsigned char>(first[1])))
        result.push_back(first);
    }
    for (const DType type : {DType::f32, DType::f16, DType::bf16}) result.push_back(name(type));
    return result;
  }

  void read() {
    if (read_word() || read_strides() || read_type() || read_length() || read_value()) return;
    fault("no token has this form", did_you_mean(token_.whole, words()));
  }

  std::string_view problem_;
  Token token_;
  Problem fields_;
  std::set<std::string> slots_;
  Window window_;
  Layout layout_ = Layout::bshd;
  std::map<std::string, Problem::Strides, std::less<>> strides_;
  std::optional<std::pair<std::int64_t, std::int64_t>> totals_;  // of packed queries and keys
  std::optional<std::int64_t> expected_kv_;
  std::map<std::string_view, std::optional<DType>> types_ = {
      {"kv", {}}, {"out", {}}, {"dq", {}}, {"dk", {}}, {"dv", {}}, {"dbias", {}}};
  bool two_totals_ = false, dbias_ = false;
};

Problem Draft::build() const {
  Problem p = fields_;
  if (!given("query length") || !given("kv length")) incomplete("it needs s2048, or q1 and kv8192");
  if (!given("d")) incomplete("it needs a head dim, as in d128");
  if (given("causal") && window_.right) {
    throw Error(ErrorCode::invalid_argument,
                "'causal' and a window's right bound say the same thing; write one of them");
  }
  p.window = window_;
  if (given("causal")) p.window.right = 0;
  if (!given("scale") && p.qk_dim > 0) p.scale = default_scale(p.qk_dim);

  const bool packed_keys = p.varlen && !p.paged();
  if (two_totals_ && !packed_keys) {
    throw Error(ErrorCode::invalid_argument,
                "paged keys are not packed: write one total after 'varlen', the queries'");
  }
  if (expected_kv_ && packed_keys) {
    throw Error(ErrorCode::invalid_argument,
                "'varlen' gives the total of packed keys already: write 'kv_lengths' without one");
  }
  const std::int64_t overflow = std::numeric_limits<std::int64_t>::max();  // refused by validate()
  p.total_q = totals_ ? totals_->first : checked_product(p.batch, p.q_len).value_or(overflow);
  p.total_kv = checked_product(p.batch, p.kv_len).value_or(overflow);
  if (packed_keys && totals_) p.total_kv = totals_->second;
  if (expected_kv_) p.total_kv = *expected_kv_;

  p.kv_dtype = type_of("kv", p.dtype);
  p.out_dtype = type_of("out", p.dtype);
  if (p.bias.dtype == DType::none && given("bias")) p.bias.dtype = p.dtype;
  const bool backward = p.operation == Operation::backward;
  for (const auto& [name, wanted] : {std::pair{"dq", backward}, std::pair{"dk", backward},
                                     std::pair{"dv", backward}, std::pair{"dbias", dbias_}}) {
    if (types_.find(name)->second && !wanted)
      incomplete("it gives the type of ", name, " but does not ask for it, as 'backward' would");
  }
  if (backward) {
    p.dq_dtype = type_of("dq", p.dtype);
    p.dk_dtype = type_of("dk", p.dtype);
    p.dv_dtype = type_of("dv", p.dtype);
  }
  const Shape full = {p.batch, p.heads, p.q_len, p.kv_len};
  for (ScoreTensor* tensor : {&p.bias, &p.mask}) {
    for (std::size_t axis = 0; axis < 4; ++axis)
      tensor->varies[axis] = tensor->varies[axis] && full[axis] != 1;
  }
  if (dbias_) {
    p.dbias.dtype = type_of("dbias", p.bias.dtype == DType::none ? p.dtype : p.bias.dtype);
    p.dbias.varies = p.bias.varies;
  }
  for (const TensorRule& rule : tensor_rules()) {
    const auto written = strides_.find(rule.name);
    if (written != strides_.end() && !rule.wanted(p))
      incomplete("it gives the strides of ", rule.name, " but has no '", rule.name, "'");
    Problem::Strides* strides = strides_in(p, rule);
    if (!strides || !rule.wanted(p)) continue;
    const Shape shape = shape_of(p, rule);
    *strides = written == strides_.end() ? dense_strides(rule, shape, layout_)
                                         : without_idle_axes(written->second, shape);
  }
  const std::int64_t widest = alignment_of_strides(p);
  if (!given("align")) p.alignment = widest;
  p.alignment = std::min(p.alignment, widest);
  p.validate();
  return p;
}

}  // namespace

bool reads_as_problem_tokens(std::string_view text) {
  try {
    Draft(text).read_all();
  } catch (const Error&) {
    return false;
  }
  return text.find_first_not_of(" \t\n") != std::string_view::npos;
}

std::string canonical_problem(std::string_view text) {
  try {
    return Problem::parse(text).to_string();
  } catch (const Error&) {
    return std::string(text);
  }
}

Problem Problem::parse(std::string_view text) {
  Draft draft(text);
  draft.read_all();
  return draft.build();
}

}  // namespace rapt
