// What a terminal shows: how wide it is, and text that fits.
#pragma once

#include <cstddef>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

namespace rapt::cli {

// Columns of the terminal that a stream goes to; absent for files and pipes, where nothing has to
// fit.
std::optional<std::size_t> terminal_width(std::FILE* stream);

// The cells a text takes: one for each code point, which holds for what rapt prints.
std::size_t cells(std::string_view text);

// The text, or as much of it as fits with "…" behind it.
std::string cut(std::string_view text, std::size_t width);

// The text in lines of up to `width` cells, broken at spaces; lines after the first are indented.
// A word that is longer than a line stays whole.
std::string wrapped(std::string_view text, std::optional<std::size_t> width, std::size_t indent);

}  // namespace rapt::cli
