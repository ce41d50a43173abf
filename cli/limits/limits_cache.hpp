// The file that remembers measured limits: $XDG_CACHE_HOME/rapt/limits.json, or ~/.cache/rapt.
#pragma once

#include <optional>
#include <string>

#include "cli/limits/limits.hpp"

namespace rapt::cli {

// `machine` tells machines apart that share a home folder. A file that cannot be read or
// understood is one warning on stderr, and as good as absent.
std::optional<MeasuredLimits> remembered_limits(const std::string& machine);

// A file that cannot be written is one warning on stderr. Other machines' limits stay.
void remember_limits(const std::string& machine, const MeasuredLimits& limits);

}  // namespace rapt::cli
