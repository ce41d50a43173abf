// The tuning file: the winners that `rapt tune` measured. The program writes it, the library obeys
// it, and this is the text they share:
//
//   rapt tuning 1
//   # rapt | backend | device | features | threads | problem | kernel | config | seconds
//   0.1.0 | cpu | AMD EPYC 7763 | avx2 fma | 2 | b1 h16 s2048 d64 f32 | cpu.naive | - | 0.0123
//
// One line a winner; lines that begin with # are comments; - is an empty field. Machines that share
// a home folder share the file.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rapt/rapt.hpp"

namespace rapt {

struct TunedWinner {
  std::string version;  // of the rapt that measured it
  std::string machine;  // tuning_machine() of the device: four fields of the line
  std::string problem;  // as Problem::to_string() writes it
  std::string kernel;
  Config config;
  double seconds = 0;  // median; four digits are kept
};

// What a winner depends on besides the problem and the version: backend, name, features, threads.
std::string tuning_machine(const Device& device);

// RAPT_TUNING; where that is not set, rapt/tuning.txt in the user's config folder. Empty: none.
std::string tuning_file_path();

// Throws Error, naming the first line that is not as above.
std::vector<TunedWinner> parse_tuning(std::string_view content);
std::string print_tuning(std::span<const TunedWinner> winners);

// Throws Error, naming the file, if it cannot be read or understood.
std::vector<TunedWinner> read_tuning_file(const std::string& path);

}  // namespace rapt
