// The manual page, rapt.1.
#pragma once

#include <string>
#include <vector>

#include "cli/catalogue.hpp"

namespace rapt::cli {

std::string manual_page(const std::vector<CommandEntry>& entries);

}  // namespace rapt::cli
