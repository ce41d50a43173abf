// The code of the kernels, on its way to the runtime. What the HIP compiler makes of a .hip file
// registers that file's code as soon as it is loaded, with a runtime that may not be there; rapt
// keeps what is registered until the runtime is.
#pragma once

namespace rapt::hip {

// Registers everything with the runtime that was loaded. Whether it has the functions for that.
bool hand_over_code(void* library);

}  // namespace rapt::hip
