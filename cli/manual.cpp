#include "cli/manual.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "rapt/rapt.hpp"
#include "src/core/problem_tokens.hpp"

namespace rapt::cli {
namespace {

// For troff, which takes a dot or an apostrophe at the start of a line for its own.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char letter : text) {
    const bool starts_line = result.empty() || result.back() == '\n';
    if (starts_line && (letter == '.' || letter == '\'')) result += "\\&";
    if (letter == '\\') {
      result += "\\e";
    } else if (letter == '-') {
      result += "\\-";
    } else {
      result += letter;
    }
  }
  return result;
}

std::string option(const OptionEntry& entry) {
  std::string head;
  for (const std::string& name : entry.names)
    head += fmt::format("{}\\fB{}\\fR", head.empty() ? "" : ", ", escaped(name));
  if (entry.positional)
    head = fmt::format("\\fI{}\\fR", escaped(entry.value));
  else if (!entry.value.empty())
    head += fmt::format(" \\fI{}\\fR", escaped(entry.value));
  std::string text = entry.text;
  if (!entry.preset.empty()) text += fmt::format(". Default: {}", entry.preset);
  return fmt::format(".TP\n{}\n{}\n", head, escaped(text));
}

// A paragraph on each line; indented lines are a list, and stay as they are.
std::string laid_out(std::string_view text) {
  std::string result;
  bool in_list = false;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.empty()) continue;
    const bool item = line.starts_with(' ');
    if (item != in_list) result += item ? ".nf\n" : ".fi\n";
    if (!item) result += ".PP\n";
    result += escaped(line) + "\n";
    in_list = item;
  }
  return in_list ? result + ".fi\n" : result;
}

std::string command(const CommandEntry& entry) {
  std::string result = fmt::format(".SS {}\n{}\n", entry.name, escaped(entry.text));
  for (const OptionEntry& each : entry.options) result += option(each);
  return result + laid_out(entry.footer);
}

}  // namespace

std::string manual_page(const std::vector<CommandEntry>& entries) {
  const CommandEntry& program = entries.front();
  std::string page = fmt::format(
      ".TH RAPT 1 \"\" \"rapt {}\" \"User Commands\"\n"
      ".SH NAME\nrapt \\- exact attention on CPUs, NVIDIA and AMD GPUs\n"
      ".SH SYNOPSIS\n.B rapt\n.I COMMAND\n[\\fIOPTIONS\\fR]\n.SH DESCRIPTION\n{}\n.SH OPTIONS\n",
      version(), escaped(program.text));
  for (const OptionEntry& each : program.options) page += option(each);
  page += ".SH COMMANDS\n";
  for (std::size_t i = 1; i < entries.size(); ++i) page += command(entries[i]);
  page += ".SH PROBLEMS\nA problem is a list of tokens in any order.\n";
  for (const ProblemToken& token : problem_tokens())
    page += fmt::format(".TP\n\\fB{}\\fR\n{}\n", escaped(token.forms), escaped(token.meaning));
  return page + ".SH NOTES\n" + laid_out(program.footer);
}

}  // namespace rapt::cli
