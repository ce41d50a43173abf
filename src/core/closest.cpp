#include "src/core/closest.hpp"

#include <algorithm>
#include <cstddef>

#include "src/core/text.hpp"

namespace rapt {
namespace {

// Letters to insert, remove, replace or swap with their neighbour to get from one to the other.
std::size_t slips(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before, above(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) above[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = a[i - 1] == b[j - 1];
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = above;
    above = row;
  }
  return above.back();
}

std::string_view after_dot(std::string_view name) {
  const std::size_t dot = name.find('.');
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

}  // namespace

std::string_view closest(std::string_view word, std::span<const std::string_view> names) {
  std::size_t least = word.size() / 3 + 1;  // so many slips and more are another word
  std::string_view found;
  for (const std::string_view name : names) {
    const bool short_form = word.find('.') == std::string_view::npos;
    const std::size_t distance = slips(word, short_form ? after_dot(name) : name);
    if (distance < least) {
      least = distance;
      found = name;
    }
  }
  return found;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string_view>& names) {
  const std::string_view name = closest(word, names);
  return name.empty() ? "" : text(" (did you mean ", name, "?)");
}

}  // namespace rapt
