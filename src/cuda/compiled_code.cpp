#include "src/cuda/compiled_code.hpp"

#include <charconv>
#include <vector>

#include "src/core/text.hpp"
#include "src/cuda/architectures.hpp"

namespace rapt::cuda {
namespace {

constexpr std::string_view compiled_for = RAPT_CUDA_ARCHITECTURES;

// Code of one architecture: "80" is both machine code and PTX.
struct Code {
  int capability = 0;
  char only = 0;  // 'a': for this very chip, 'f': for its family; 0: for what follows, too
  bool real = true, ptx = true;

  explicit Code(std::string_view text) {
    const char* const end = text.data() + text.size();
    const char* rest = std::from_chars(text.data(), end, capability).ptr;
    if (rest != end && (*rest == 'a' || *rest == 'f')) only = *rest++;
    const std::string_view kind(rest, static_cast<std::size_t>(end - rest));
    real = kind != "-virtual";
    ptx = kind != "-real";
  }

  // Machine code runs within a generation from its chip on, PTX on everything later.
  bool runs_on(int chip) const {
    if (capability == 0) return true;  // "native", "all": whatever CMake made of it
    if (only == 'a') return chip == capability;
    const bool generation = chip / 10 == capability / 10;
    return chip >= capability && (generation ? real || ptx : ptx && only == 0);
  }
};

std::vector<Code> codes_of(std::string_view architectures) {
  std::vector<Code> result;
  while (!architectures.empty()) {
    const std::string_view one = architectures.substr(0, architectures.find(','));
    result.emplace_back(one);
    architectures.remove_prefix(std::min(architectures.size(), one.size() + 1));
  }
  return result;
}

Support judge(const Device& device, std::string_view architectures,
              const std::vector<Code>& codes) {
  const int chip = capability_of(device);
  for (const Code& code : codes)
    if (code.runs_on(chip)) return Support::yes();
  constexpr int first = 80;  // that kernels are written for
  return Support::no(text("this build has no code for ", device.features, ": it was compiled for ",
                          architectures,
                          chip < first ? text(", and no kernel is written for less than sm_", first)
                                       : text("; add ", chip, "-real to RAPT_CUDA_ARCHITECTURES")));
}

}  // namespace

Support has_code(const Device& device) {
  static const std::vector<Code> codes = codes_of(compiled_for);
  return judge(device, compiled_for, codes);
}

Support has_code(const Device& device, std::string_view architectures) {
  return judge(device, architectures, codes_of(architectures));
}

}  // namespace rapt::cuda
