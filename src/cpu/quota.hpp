// The share of the machine's processors that a container may use: `docker --cpus`, Kubernetes'
// limits.
#pragma once

#include <filesystem>
#include <optional>

namespace rapt {

// Processors' worth of time that control groups leave this process, rounded up; absent: any number.
// The smallest quota on the way from its group to the root counts. `root` holds proc and sys.
std::optional<int> processor_quota(const std::filesystem::path& root = "/");

}  // namespace rapt
