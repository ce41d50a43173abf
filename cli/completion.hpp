// Scripts by which shells complete the program's command line. Names of kernels are asked of the
// program when they are wanted.
#pragma once

#include <string>
#include <vector>

#include "cli/catalogue.hpp"

namespace rapt::cli {

std::string bash_completion(const std::vector<CommandEntry>& entries);
std::string zsh_completion(const std::vector<CommandEntry>& entries);
std::string fish_completion(const std::vector<CommandEntry>& entries);

}  // namespace rapt::cli
