// Any text as a problem string: it is refused with an Error, or it prints, reads back as the same
// problem, and can be explained.
#include <cstdio>
#include <cstdlib>

#include "rapt/rapt.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const rapt::Device device = rapt::Device::cpu(1);
  rapt::Problem problem;
  try {
    problem = rapt::Problem::parse({reinterpret_cast<const char*>(data), size});
  } catch (const rapt::Error&) {
    return 0;
  }
  const std::string printed = problem.to_string();
  const rapt::Problem again = rapt::Problem::parse(printed);
  if (again != problem || again.to_string() != printed) {
    std::fprintf(stderr, "'%s' reads back as '%s'\n", printed.c_str(), again.to_string().c_str());
    std::abort();
  }
  if (rapt::explain(problem, device).to_string().empty()) std::abort();
  return 0;
}
