#include "src/cpu/quota.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <string_view>

namespace rapt {
namespace {

namespace fs = std::filesystem;

// Version 2: "150000 100000" or "max 100000", microseconds of each period.
std::optional<double> unified_quota(const fs::path& group) {
  std::ifstream file(group / "cpu.max");
  double time = 0, period = 0;
  if (file >> time >> period && time > 0 && period > 0) return time / period;
  return std::nullopt;
}

// Version 1: a file for each; a time of -1 is no limit.
std::optional<double> cpu_controller_quota(const fs::path& group) {
  std::ifstream time_file(group / "cpu.cfs_quota_us"), period_file(group / "cpu.cfs_period_us");
  double time = 0, period = 0;
  if (time_file >> time && period_file >> period && time > 0 && period > 0) return time / period;
  return std::nullopt;
}

bool lists_cpu(std::string_view controllers) {
  for (std::size_t begin = 0; begin <= controllers.size();) {
    const std::size_t end = std::min(controllers.find(',', begin), controllers.size());
    if (controllers.substr(begin, end - begin) == "cpu") return true;
    begin = end + 1;
  }
  return false;
}

}  // namespace

std::optional<int> processor_quota(const fs::path& root) {
  std::optional<double> least;
  const auto visit = [&](const fs::path& top, fs::path group, auto quota_of) {
    // A container may see its own group as the top while proc names the machine's path to it:
    // groups that are not there are passed over.
    for (;; group = group.parent_path()) {
      if (const auto quota = quota_of(top / group))
        least = std::min(least.value_or(*quota), *quota);
      if (group.empty()) return;
    }
  };
  const fs::path mounted = root / "sys/fs/cgroup";
  std::ifstream file(root / "proc/self/cgroup");  // lines "number:controllers:/path"
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const fs::path group = fs::path(line.substr(second + 1)).relative_path();
    if (controllers.empty()) visit(mounted, group, unified_quota);
    if (lists_cpu(controllers)) {
      for (const char* name : {"cpu", "cpu,cpuacct"})
        visit(mounted / name, group, cpu_controller_quota);
    }
  }
  if (!least) return std::nullopt;
  return std::max(1, static_cast<int>(std::min(std::ceil(*least), 1e6)));
}

}  // namespace rapt
