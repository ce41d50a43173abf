#include "cli/arrays/npy_header.hpp"

#include <fmt/format.h>

#include <charconv>

#include "rapt/rapt.hpp"

namespace rapt::cli {
namespace {

constexpr std::size_t most_axes = 64;  // NumPy's own limit

class Parser {
 public:
  Parser(std::string_view text, std::string_view name) : text_(text), name_(name) {}

  NpyHeader header() {
    NpyHeader result;
    bool has_descr = false, has_order = false, has_shape = false;
    const auto once = [&](bool& seen, std::string_view key) {
      if (seen) fault(fmt::format("'{}' is there twice", key));
      seen = true;
    };
    expect('{');
    while (!take('}')) {
      const std::string key = string();
      expect(':');
      if (key == "descr") {
        once(has_descr, key);
        result.descr = descr();
      } else if (key == "fortran_order") {
        once(has_order, key);
        result.fortran_order = boolean();
      } else if (key == "shape") {
        once(has_shape, key);
        result.shape = shape();
      } else {
        fault(
            fmt::format("the key '{}' is not one of descr, fortran_order, shape", printable(key)));
      }
      if (!take(',') && !next_is('}')) fault("a ',' or '}' is missing");
    }
    skip_spaces();
    if (position_ != text_.size()) fault("something follows its closing '}'");
    if (!has_descr || !has_order || !has_shape)
      fault("it needs the keys descr, fortran_order and shape");
    return result;
  }

 private:
  [[noreturn]] void fault(const std::string& what) const {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} has a malformed .npy header, at byte {} of it: {}; save the array "
                            "again with numpy.save",
                            name_, position_, what));
  }

  static std::string printable(std::string_view text) {
    std::string result;
    for (const char letter : text.substr(0, 40))
      result += letter >= ' ' && letter < 127 ? letter : '?';
    return result;
  }

  void skip_spaces() {
    while (position_ < text_.size() &&
           (text_[position_] == ' ' || text_[position_] == '\n' || text_[position_] == '\t')) {
      ++position_;
    }
  }

  bool next_is(char letter) {
    skip_spaces();
    return position_ < text_.size() && text_[position_] == letter;
  }

  bool take(char letter) {
    const bool found = next_is(letter);
    position_ += found;
    return found;
  }

  void expect(char letter) {
    if (!take(letter)) fault(fmt::format("'{}' is missing", letter));
  }

  bool take_word(std::string_view word) {
    skip_spaces();
    const bool found = text_.substr(position_).starts_with(word);
    if (found) position_ += word.size();
    return found;
  }

  std::string string() {
    const char quote = take('\'') ? '\'' : '"';
    if (quote == '"') expect('"');
    const std::size_t end = text_.find(quote, position_);
    if (end == std::string_view::npos) fault("a string does not end");
    const std::string_view result = text_.substr(position_, end - position_);
    if (result.find_first_of("\\\n") != std::string_view::npos)
      fault("a string has an escape or a newline in it");
    position_ = end + 1;
    return std::string(result);
  }

  std::string descr() {
    if (next_is('[')) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{} holds a structured array; save the one field that is wanted, "
                              "as float32 or float16",
                              name_));
    }
    return printable(string());
  }

  bool boolean() {
    if (take_word("True")) return true;
    if (take_word("False")) return false;
    fault("fortran_order is neither True nor False");
  }

  // (), (3,), (3, 4) or (3, 4,)
  std::vector<std::int64_t> shape() {
    std::vector<std::int64_t> result;
    bool comma = true;
    expect('(');
    while (!take(')')) {
      if (!comma) fault("a ',' is missing in the shape");
      if (result.size() == most_axes) fault(fmt::format("the shape has over {} axes", most_axes));
      result.push_back(size());
      comma = take(',');
    }
    if (result.size() == 1 && !comma) fault("a shape of one axis is written with a comma: (3,)");
    return result;
  }

  std::int64_t size() {
    skip_spaces();
    std::int64_t value = 0;
    const char* begin = text_.data() + position_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error == std::errc::result_out_of_range) fault("a size of the shape overflows 64 bits");
    if (error != std::errc()) fault("a size of the shape is not a whole number");
    if (value < 0) fault(fmt::format("a size of the shape is {}; sizes are 0 or more", value));
    position_ += static_cast<std::size_t>(end - begin);
    take('L');  // Python 2 wrote its long integers so
    return value;
  }

  std::string_view text_, name_;
  std::size_t position_ = 0;
};

}  // namespace

NpyHeader parse_npy_header(std::string_view text, std::string_view name) {
  return Parser(text, name).header();
}

}  // namespace rapt::cli
