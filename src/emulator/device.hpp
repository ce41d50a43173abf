// The emulator as a backend: emu:0 has waves of 32 lanes, emu:1 of 64.
#pragma once

#include "src/core/backend.hpp"

namespace rapt {

extern const BackendOperations emu_backend;

}  // namespace rapt
