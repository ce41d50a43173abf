// What a chip reaches by measurement.
#pragma once

namespace rapt {

// Flop/s and bytes/s; 0 where there is no such unit, or no way to measure it. A copy counts what it
// reads and what it writes.
struct Rates {
  double f32_flops = 0;
  double matrix_flops = 0;  // bf16 on matrix units, or by dot products of it
  double tf32_flops = 0;    // f32 as TF32 on matrix units
  double read_bandwidth = 0, copy_bandwidth = 0;
};

}  // namespace rapt
