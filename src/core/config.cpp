// The text form of a config.
#include <algorithm>

#include "rapt/rapt.hpp"
#include "src/core/fault.hpp"
#include "src/core/text.hpp"

namespace rapt {

Config Config::parse(std::string_view text) {
  Config config;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(item.size() + 1, text.size()));
    const std::size_t equals = item.find('=');
    const auto value = equals == std::string_view::npos
                           ? std::nullopt
                           : parse_number<std::int64_t>(item.substr(equals + 1));
    if (!value || equals == 0) {
      fault("cannot read '", item, "' of the config; it is written key=number,key=number");
    }
    const std::string key(item.substr(0, equals));
    if (std::ranges::any_of(config.values, [&](const auto& pair) { return pair.first == key; })) {
      fault("the config gives '", key, "' twice");
    }
    config.values.emplace_back(key, *value);
  }
  return config;
}

std::int64_t Config::at(std::string_view key) const {
  for (const auto& [name, value] : values) {
    if (name == key) return value;
  }
  fault("the config '", to_string(), "' has no key '", key, "'");
}

std::string Config::to_string() const {
  std::string result;
  for (const auto& [key, value] : values)
    result += text(result.empty() ? "" : ",", key, "=", value);
  return result;
}

}  // namespace rapt
