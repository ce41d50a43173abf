#include "src/core/tuning_file.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include "src/core/environment.hpp"
#include "src/core/fault.hpp"
#include "src/core/problem_tokens.hpp"
#include "src/core/user_folder.hpp"

namespace rapt {
namespace {

constexpr std::string_view header = "rapt tuning 1";
constexpr std::string_view legend =
    "# rapt | backend | device | features | threads | problem | kernel | config | seconds";
constexpr std::size_t fields_of_a_line = 9;
constexpr std::size_t most_bytes = std::size_t{4} << 20;

bool is_control(char letter) {
  return static_cast<unsigned char>(letter) < 0x20 && letter != '\t' && letter != '\r';
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

// Text of any kind as a field: what would end the field or the line is a space.
std::string field(std::string_view text) {
  std::string result(text);
  std::ranges::replace_if(
      result, [](char letter) { return letter == '|' || is_control(letter); }, ' ');
  result = trimmed(result);
  return result.empty() ? "-" : result;
}

std::vector<std::string_view> fields(std::string_view line) {
  std::vector<std::string_view> result;
  for (;;) {
    const std::size_t end = line.find('|');
    result.push_back(trimmed(line.substr(0, end)));
    if (end == std::string_view::npos) return result;
    line.remove_prefix(end + 1);
  }
}

Config parse_config(std::string_view text) {
  try {
    return Config::parse(text == "-" ? "" : text);
  } catch (const Error&) {
    fault("has a config that is not written key=number,key=number");
  }
}

// Throws Error with the rest of a sentence that begins with the number of the line.
TunedWinner parse_winner(std::string_view line) {
  if (std::ranges::any_of(line, is_control)) fault("is not text");
  const std::vector<std::string_view> parts = fields(line);
  if (parts.size() != fields_of_a_line) {
    fault("has ", parts.size(), " fields; a winner has ", fields_of_a_line);
  }
  if (std::ranges::any_of(parts, &std::string_view::empty)) fault("has an empty field");
  const auto seconds = parse_number<double>(parts[8]);
  if (!seconds || !std::isfinite(*seconds) || *seconds < 0) {
    fault("ends in seconds that are not a number of 0 or more");
  }
  return {.version = std::string(parts[0]),
          .machine = text(parts[1], " | ", parts[2], " | ", parts[3], " | ", parts[4]),
          .problem = canonical_problem(parts[5]),
          .kernel = std::string(parts[6]),
          .config = parse_config(parts[7]),
          .seconds = *seconds};
}

std::string four_digits(double value) {
  char digits[64];
  const auto end =
      std::to_chars(digits, digits + sizeof digits, value, std::chars_format::general, 4);
  return {digits, end.ptr};
}

std::string print_winner(const TunedWinner& winner) {
  return text(winner.version, " | ", winner.machine, " | ", winner.problem, " | ", winner.kernel,
              " | ", field(winner.config.to_string()), " | ", four_digits(winner.seconds), "\n");
}

std::string read_regular_file(const std::string& path) {
  std::error_code unknown;
  if (!std::filesystem::is_regular_file(path, unknown)) fault("is not a regular file");
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rbe"),
                                                             std::fclose);
  if (!file) fault("cannot be read: ", std::strerror(errno));
  std::string content(most_bytes + 1, '\0');
  content.resize(std::fread(content.data(), 1, content.size(), file.get()));
  if (std::ferror(file.get())) fault("cannot be read: ", std::strerror(errno));
  if (content.size() > most_bytes) fault("is larger than ", human_bytes(double(most_bytes)));
  return content;
}

}  // namespace

std::string tuning_machine(const Device& device) {
  return text(name(device.backend), " | ", field(device.name), " | ", field(device.features), " | ",
              device.backend == Backend::cpu ? device.threads : device.multiprocessors);
}

std::string tuning_file_path() {
  if (const auto named = environment_value("RAPT_TUNING")) return *named;
  const std::string folder = user_folder("XDG_CONFIG_HOME", ".config");
  return folder.empty() ? "" : text(folder, "/rapt/tuning.txt");
}

std::vector<TunedWinner> parse_tuning(std::string_view content) {
  std::vector<TunedWinner> winners;
  for (std::int64_t number = 1; number == 1 || !content.empty(); ++number) {
    const std::string_view line = content.substr(0, content.find('\n'));
    content.remove_prefix(std::min(line.size() + 1, content.size()));
    if (number == 1) {
      if (trimmed(line) != header) fault("line 1 is not '", header, "'");
      continue;
    }
    if (trimmed(line).empty() || line.starts_with('#')) continue;
    try {
      winners.push_back(parse_winner(line));
    } catch (const Error& error) {
      fault("line ", number, " ", error.what());
    }
  }
  return winners;
}

std::string print_tuning(std::span<const TunedWinner> winners) {
  std::string result = text(header, "\n", legend, "\n");
  for (const TunedWinner& winner : winners) result += print_winner(winner);
  if (result.size() > most_bytes) {
    fault("a tuning file holds at most ", human_bytes(double(most_bytes)),
          "; remove lines that are no longer wanted");
  }
  return result;
}

std::vector<TunedWinner> read_tuning_file(const std::string& path) {
  std::string content;
  try {
    content = read_regular_file(path);
  } catch (const Error& error) {
    fault("the tuning file ", path, " ", error.what());
  }
  try {
    return parse_tuning(content);
  } catch (const Error& error) {
    fault("the tuning file ", path, " is damaged: ", error.what());
  }
}

}  // namespace rapt
