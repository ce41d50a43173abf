#include "src/hip/limits.hpp"

#include "src/hip/clock.hpp"
#include "src/portable/limits.hpp"

namespace rapt {

namespace hip {
struct Launcher;  // launcher.hpp, for the HIP compiler alone
}

extern template void gpu::launch_limits<hip::Launcher>(const gpu::LimitsParameters&, gpu::Where);

Rates hip::measure(const Device& device) {
  const std::unique_ptr<StreamClock> clock = clock_of(device);
  return gpu::measure_rates(device, *clock, gpu::launch_limits<Launcher>);
}

}  // namespace rapt
