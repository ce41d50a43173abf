// The seconds of each run of one kernel, and when enough is known of it.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace rapt::cli {

class Samples {
 public:
  void add(double seconds);
  std::size_t count() const { return seconds_.size(); }
  // Of at least one sample.
  double median() const;
  double least() const;
  // Half of what lies between the quartiles, which one outlier does not move either. Absent of a
  // single sample.
  std::optional<double> spread() const;

  // After the time allowed, but not with fewer than three samples unless the first took longer than
  // that by itself.
  bool enough(double allowed) const;
  // So much slower than `best` that more samples would change nothing. Fast kernels are not judged
  // by a single hiccup.
  bool far_behind(double best) const;

 private:
  double quantile(double part) const;

  std::vector<double> seconds_;
  double spent_ = 0;
};

}  // namespace rapt::cli
