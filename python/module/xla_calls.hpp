// The custom call "rapt_attention" of XLA, for JAX's compiled programs.
#pragma once

#include <nanobind/nanobind.h>

namespace rapt_python {

// What registers it: a capsule for each platform, by XLA's name of it.
nanobind::dict xla_handlers();

}  // namespace rapt_python
