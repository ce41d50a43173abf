// What a user who wrote a name that does not exist may have meant.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rapt {

// The name a few slips of the keyboard away from `word`, or the first that ends in ".word"; empty
// where none is near.
std::string_view closest(std::string_view word, std::span<const std::string_view> names);

// " (did you mean cpu.flash?)", or nothing.
std::string did_you_mean(std::string_view word, const std::vector<std::string_view>& names);

}  // namespace rapt
