#include "cli/catalogue.hpp"

namespace rapt::cli {
namespace {

OptionEntry entry_of(const CLI::Option& option) {
  OptionEntry entry;
  entry.positional = option.get_positional();
  entry.required = option.get_required();
  if (entry.positional) {
    entry.names = {option.get_name()};
  } else {
    for (const std::string& name : option.get_snames()) entry.names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) entry.names.push_back("--" + name);
  }
  if (option.get_expected_max() > 0) entry.value = option.get_type_name();
  entry.text = option.get_description();
  entry.preset = option.get_default_str();
  return entry;
}

CommandEntry entry_of(const CLI::App& app) {
  CommandEntry entry;
  entry.name = app.get_name();
  entry.text = app.get_description();
  entry.footer = app.get_footer();
  for (const CLI::Option* option : app.get_options()) entry.options.push_back(entry_of(*option));
  return entry;
}

}  // namespace

std::vector<CommandEntry> catalogue(const CLI::App& app) {
  std::vector<CommandEntry> result = {entry_of(app)};
  for (const CLI::App* command : app.get_subcommands({})) {
    result.push_back(entry_of(*command));
    // Commands without a footer of their own show the program's.
    if (result.back().footer == result.front().footer) result.back().footer.clear();
  }
  return result;
}

}  // namespace rapt::cli
