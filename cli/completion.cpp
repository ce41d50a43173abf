#include "cli/completion.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <span>
#include <string_view>

#include "cli/bench/suite.hpp"

namespace rapt::cli {
namespace {

constexpr std::string_view list_kernels = "rapt kernels 2>/dev/null | sed '1d;s/ .*//'";

// What may stand for an option's value, from the parts of its type: FILE|a|b.
struct Choices {
  bool files = false, kernels = false;
  std::string words;  // with a space between
};

Choices choices_of(std::string_view value, std::span<const CommandEntry> commands) {
  Choices result;
  const auto add = [&](std::string_view word) {
    result.words += fmt::format("{}{}", result.words.empty() ? "" : " ", word);
  };
  while (!value.empty()) {
    const std::string_view part = value.substr(0, value.find('|'));
    value.remove_prefix(std::min(part.size() + 1, value.size()));
    const bool file = part == "FILE" || part == "Q" || part == "K" || part == "V";
    if (file) {
      result.files = true;
    } else if (part == "KERNEL") {
      result.kernels = true;
    } else if (part == "DEVICE") {
      add("cpu cuda:0 hip:0");
    } else if (part == "SUITE") {
      for (const Suite& suite : built_in_suites()) add(suite.name);
    } else if (part == "COMMAND") {
      for (const CommandEntry& command : commands) add(command.name);
    } else if (std::islower(static_cast<unsigned char>(part.front()))) {
      add(part);
    }
  }
  return result;
}

std::string first_line(std::string_view text) {
  return std::string(text.substr(0, text.find('\n')));
}

// For 'single quotes' of a shell.
std::string in_quotes(std::string_view text) {
  std::string result;
  for (const char letter : text) {
    if (letter == '\'')
      result += "'\\''";
    else
      result += letter;
  }
  return result;
}

std::string names_of(const CommandEntry& command) {
  std::string names;
  for (const OptionEntry& option : command.options) {
    if (option.positional) continue;
    for (const std::string& name : option.names)
      names += fmt::format("{}{}", names.empty() ? "" : " ", name);
  }
  return names;
}

std::string bash_reply(const Choices& choices) {
  std::string words = choices.words;
  if (choices.kernels) words += fmt::format("$({})", list_kernels);
  const std::string files = choices.files ? " -f" : "";
  return fmt::format("COMPREPLY=($(compgen{} -W \"{}\" -- \"$word\"))", files, words);
}

Choices positional_choices(const CommandEntry& command, std::span<const CommandEntry> commands) {
  for (const OptionEntry& option : command.options) {
    if (option.positional) return choices_of(option.value, commands);
  }
  return {};
}

}  // namespace

std::string bash_completion(const std::vector<CommandEntry>& entries) {
  const std::span commands = std::span(entries).subspan(1);
  std::string all, cases;
  for (const CommandEntry& command : commands) {
    all += command.name + " ";
    std::string values;
    for (const OptionEntry& option : command.options) {
      if (option.positional || option.value.empty()) continue;
      values += fmt::format("        {}) {} ;;\n", fmt::join(option.names, "|"),
                            bash_reply(choices_of(option.value, commands)));
    }
    cases += fmt::format(
        "    {})\n      case $before in\n{}        *)\n"
        "          if [[ $word == -* ]]; then COMPREPLY=($(compgen -W \"{}\" -- \"$word\"))\n"
        "          else {}; fi ;;\n      esac ;;\n",
        command.name, values, names_of(command), bash_reply(positional_choices(command, commands)));
  }
  return fmt::format(
      "# Completion of rapt for bash, by `rapt completion bash`.\n"
      "_rapt() {{\n"
      "  # Devices have a colon, which bash takes for the end of a word.\n"
      "  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}}\n"
      "  if ((COMP_CWORD == 1)); then\n"
      "    COMPREPLY=($(compgen -W \"{}{}\" -- \"$word\"))\n    return\n  fi\n"
      "  case ${{COMP_WORDS[1]}} in\n{}  esac\n}}\n"
      "complete -o filenames -F _rapt rapt\n",
      all, names_of(entries.front()), cases);
}

std::string fish_completion(const std::vector<CommandEntry>& entries) {
  const std::span commands = std::span(entries).subspan(1);
  std::string result = "# Completion of rapt for fish, by `rapt completion fish`.\n";
  const auto line = [&](std::string_view condition, const OptionEntry& option) {
    std::string flags;
    for (const std::string& name : option.names) {
      const bool is_long = name.starts_with("--");
      flags += fmt::format(" -{} {}", is_long ? 'l' : 's', name.substr(is_long ? 2 : 1));
    }
    const Choices choices = choices_of(option.value, commands);
    if (!option.value.empty()) flags += choices.files ? " -r -F" : " -x";
    if (choices.kernels)
      flags += fmt::format(" -a '({})'", in_quotes(list_kernels));
    else if (!choices.words.empty())
      flags += fmt::format(" -a '{}'", choices.words);
    result += fmt::format("complete -c rapt -n '{}'{} -d '{}'\n", condition, flags,
                          in_quotes(first_line(option.text)));
  };
  for (const OptionEntry& option : entries.front().options) line("__fish_use_subcommand", option);
  for (const CommandEntry& command : commands) {
    result += fmt::format("complete -c rapt -f -n __fish_use_subcommand -a {} -d '{}'\n",
                          command.name, in_quotes(first_line(command.text)));
    const std::string seen = fmt::format("__fish_seen_subcommand_from {}", command.name);
    const Choices choices = positional_choices(command, commands);
    if (!choices.files) result += fmt::format("complete -c rapt -f -n '{}'\n", seen);
    if (!choices.words.empty())
      result += fmt::format("complete -c rapt -n '{}' -a '{}'\n", seen, choices.words);
    for (const OptionEntry& option : command.options) {
      if (!option.positional) line(seen, option);
    }
  }
  return result;
}

std::string zsh_completion(const std::vector<CommandEntry>& entries) {
  const std::span commands = std::span(entries).subspan(1);
  // _arguments takes brackets and colons for its own.
  const auto description = [](std::string_view text) {
    std::string result;
    for (const char letter : in_quotes(first_line(text))) {
      if (letter == '[' || letter == ']' || letter == ':') result += '\\';
      result += letter;
    }
    return result;
  };
  const auto action = [&](const OptionEntry& option) {
    const Choices choices = choices_of(option.value, commands);
    if (choices.kernels) return std::string("_rapt_kernels");
    std::string words = choices.words;
    for (std::size_t at = 0; (at = words.find(':', at)) != words.npos; at += 2)
      words.insert(at, "\\");
    if (choices.files)
      return words.empty()
                 ? std::string("_files")
                 : fmt::format("{{_alternative \"words:word:({})\" \"files:file:_files\"}}", words);
    return words.empty() ? std::string(" ") : fmt::format("({})", words);
  };
  const auto argument = [&](const OptionEntry& option) {
    if (option.positional) {
      return fmt::format(" \\\n        '{}:{}:{}'", option.required ? "" : "*",
                         description(option.value), action(option));
    }
    std::string result;
    for (const std::string& name : option.names) {
      result += fmt::format(" \\\n        '{}[{}]", name, description(option.text));
      if (!option.value.empty())
        result += fmt::format(":{}:{}", description(option.value), action(option));
      result += "'";
    }
    return result;
  };
  std::string list, cases;
  for (const CommandEntry& command : commands) {
    list += fmt::format("    '{}:{}'\n", command.name, description(command.text));
    cases += fmt::format("    {})\n      _arguments -s", command.name);
    for (const OptionEntry& option : command.options) cases += argument(option);
    cases += " ;;\n";
  }
  std::string program;
  for (const OptionEntry& option : entries.front().options) program += argument(option);
  return fmt::format(
      "#compdef rapt\n# Completion of rapt for zsh, by `rapt completion zsh`.\n"
      "_rapt_kernels() {{ local -a names; names=(${{(f)\"$({})\"}}); compadd -a names }}\n"
      "_rapt() {{\n  local -a commands\n  commands=(\n{}  )\n"
      "  if ((CURRENT == 2)); then\n    _describe command commands\n"
      "    _arguments{}\n    return\n  fi\n"
      "  local command=$words[2]\n  shift words\n  ((CURRENT--))\n"
      "  case $command in\n{}  esac\n}}\n"
      "_rapt \"$@\"\n",
      list_kernels, list, program, cases);
}

}  // namespace rapt::cli
