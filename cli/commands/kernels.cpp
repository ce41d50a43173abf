// `rapt kernels`: every kernel, and what it is for.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/program.hpp"
#include "cli/table.hpp"
#include "cli/terminal.hpp"

namespace rapt::cli {
namespace {

// --kernel and --device narrow the list.
std::vector<KernelInfo> wanted_kernels(const SharedOptions& options) {
  std::vector<KernelInfo> list = kernels();
  if (!options.kernel.empty()) {
    std::erase_if(list, [&](const KernelInfo& kernel) { return kernel.name != options.kernel; });
  }
  if (options.names_device()) {
    const Device device = options.device();
    options.check_kernel_is_for(device);
    std::erase_if(list, [&](const KernelInfo& kernel) { return kernel.backend != device.backend; });
  }
  return list;
}

void print_json(const std::vector<KernelInfo>& list) {
  nlohmann::ordered_json result = nlohmann::ordered_json::array();
  for (const KernelInfo& kernel : list) {
    result.push_back({{"name", kernel.name},
                      {"backend", name(kernel.backend)},
                      {"operation", name(kernel.operation)},
                      {"summary", kernel.summary},
                      {"by_name_only", kernel.by_name_only}});
  }
  fmt::print("{}\n", result.dump(2));
}

void print_table(const std::vector<KernelInfo>& list) {
  Table table;
  table.column("kernel");
  table.column("chosen");
  table.column("what it is for");
  for (const KernelInfo& kernel : list) {
    table.row({std::string(kernel.name), kernel.by_name_only ? "by name only" : "by estimate",
               std::string(kernel.summary)});
  }
  fmt::print("{}", table.to_string(terminal_width(stdout)));
}

}  // namespace

void add_kernels(CLI::App& app, Session& session) {
  const auto json = std::make_shared<bool>(false);
  CLI::App& command = add_command(
      app, session, "kernels",
      "List every kernel of this build and what it is for.\n"
      "A kernel marked \"by name only\" is never chosen by itself; --kernel of other commands uses "
      "it.",
      {.device = "List the kernels of this device only. Default: those of every backend",
       .kernel = "List this kernel only",
       .config = nullptr,
       .threads = nullptr},
      [json, &session] {
        const std::vector<KernelInfo> list = wanted_kernels(session.options);
        *json ? print_json(list) : print_table(list);
        return success;
      });
  command.add_flag("--json", *json, "Print the list as JSON");
}

}  // namespace rapt::cli
