// What the user's tuning file says of a problem, as selection needs it. The file is read when it is
// first needed, and again when another one is there.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/core/tuning_file.hpp"

namespace rapt {

struct Tuning {
  std::optional<TunedWinner> winner;  // measured by this version of rapt, on this machine
  std::string file;
  std::vector<std::string> warnings;  // why the file, or its winner, is ignored
};

// Never throws for what the file holds. Costs a look at the file's date where nothing changed.
Tuning tuning_for(const Problem& problem, const Device& device);

// The sentence for a winner that is ignored.
std::string stale_winner(const Problem& problem, const std::string& file, const std::string& why);

}  // namespace rapt
