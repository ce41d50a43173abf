// What there is to know and to combine: devices, kernels, explanations, merge.
#pragma once

#include <nanobind/nanobind.h>

namespace rapt_python {

void define_catalogue(nanobind::module_& module);

}  // namespace rapt_python
