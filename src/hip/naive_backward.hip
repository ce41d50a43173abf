#include "src/gpu/naive_backward.hpp"
#include "src/hip/launcher.hpp"

template void rapt::gpu::launch_naive_backward<rapt::hip::Launcher>(const NaiveBackwardParameters&,
                                                                    Where);
