// The commands and options of the program as plain data, read off what parses the command line: the
// manual page and the shells' completions are made from it, and so cannot go stale.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

namespace rapt::cli {

struct OptionEntry {
  std::vector<std::string> names;  // "-o", "--out"; of an argument without a dash, its name alone
  std::string value;               // "FILE", "bshd|bhsd"; empty: a flag
  std::string text, preset;        // what it is for; the default, empty: none, or told in the text
  bool positional = false, required = false;
};

struct CommandEntry {
  std::string name, text, footer;
  std::vector<OptionEntry> options;
};

// The commands, in the order of the help. The first entry is the program itself.
std::vector<CommandEntry> catalogue(const CLI::App& app);

}  // namespace rapt::cli
