#include "src/core/environment.hpp"
#include "src/core/fault.hpp"

#include <cstdio>
#include <cstdlib>

#include "rapt/rapt.hpp"
#include "src/core/text.hpp"

namespace rapt {

std::optional<std::string> environment_value(const char* name) {
  const char* value = std::getenv(name);
  return value ? std::optional<std::string>(value) : std::nullopt;
}

std::string environment_text(const char* name) { return environment_value(name).value_or(""); }

bool environment_flag(const char* name) {
  const std::string value = environment_text(name);
  return !value.empty() && value != "0";
}

std::optional<std::int32_t> environment_threads() {
  const std::string value = environment_text("RAPT_THREADS");
  if (value.empty()) return std::nullopt;
  const auto threads = parse_number<std::int32_t>(value);
  if (!threads || *threads < 1 || *threads > 1024) {
    fault("RAPT_THREADS is '", value, "'; it must be a whole number from 1 to 1024");
  }
  return threads;
}

void log_line(std::string_view line) {
  const std::string whole = text("rapt: ", line, "\n");
  std::fwrite(whole.data(), 1, whole.size(), stderr);
}

}  // namespace rapt
