// The one model of a GPU's time. A kernel counts what it launches, reach.hpp says what it reaches
// of the chip, and blocks go to multiprocessors in waves:
//
//   step(r) = norm(compute of r blocks, latencies)    r blocks share a multiprocessor
//   wave(r) = block + steps · step(r)
//   launch  = norm(all waves, bytes / bandwidth)      the memory serves all blocks alike
//
// norm(a, b) = (a⁴ + b⁴)^¼: things at the same time take about as long as the longer one, and some
// more where they are alike.
#pragma once

#include <array>

#include "src/core/kernel.hpp"
#include "src/portable/reach.hpp"

namespace rapt::gpu {

// What a kernel counts.
struct Counts {
  double blocks = 1;               // in all, with the keys in one piece
  int resident = 1;                // that a multiprocessor takes at once
  double keys = 1, most_keys = 1;  // of a block: on average, and of the longest one
  bool uneven = false;             // blocks have different numbers of keys
  double step_keys = 1;            // of a step
  double step_flops = 0;           // of a step of one block
  double flops_per_second = 0;     // of the units they run on
  double bytes = 0;                // to and from memory
  double apart_bytes = 0;          // the same, in launches of their own
  double launches = 1;

  int dim = 0;             // that tiles are made for
  double rate = 1;         // factor to the table's
  double latency = 1;      // the same, to step_seconds
  bool score_mod = false;  // scores are more than scaled dot products
  bool paged = false;

  // Where keys can be split:
  double least_chunk = 1;       // keys
  double partial_bytes = 0;     // of one chunk of every row
  double combined_at_once = 1;  // chunks of a row
};

// What does not depend on the splits is worked out once: making a plan asks for many of them.
class WaveModel {
 public:
  WaveModel(const Device& device, const KernelReach& reach, const Counts& counts);
  Estimate with(double splits) const;
  Estimate whole() const { return with(1); }

 private:
  static constexpr int most_resident = 8;

  double chunk_of(double keys, double splits) const;
  double wave(double resident, double steps) const;
  double combining(double chunks) const;

  Counts counts_;
  double multiprocessors_;
  double overhead_, block_;                   // seconds of the launch, of a block
  double compute_, memory_, apart_;           // seconds of a step, of all bytes, of those apart
  double combine_, combine_step_, partials_;  // seconds: of a launch, a turn, the bytes of a chunk
  std::array<double, most_resident + 1> step_;  // seconds, by the blocks that share
};

}  // namespace rapt::gpu
