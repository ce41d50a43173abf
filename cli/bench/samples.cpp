#include "cli/bench/samples.hpp"

#include <algorithm>
#include <cmath>

namespace rapt::cli {
namespace {

constexpr std::size_t most_samples = 1000;
constexpr double far = 4;                // times the best
constexpr double longest_hiccup = 0.01;  // seconds

}  // namespace

void Samples::add(double seconds) {
  seconds_.push_back(seconds);
  spent_ += seconds;
}

// Between two samples in proportion.
double Samples::quantile(double part) const {
  std::vector<double> sorted = seconds_;
  std::ranges::sort(sorted);
  const double place = part * double(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], place - double(below));
}

double Samples::median() const { return quantile(0.5); }

std::optional<double> Samples::spread() const {
  if (count() < 2) return std::nullopt;
  return (quantile(0.75) - quantile(0.25)) / 2;
}

double Samples::least() const { return std::ranges::min(seconds_); }

bool Samples::enough(double allowed) const {
  if (seconds_.empty()) return false;
  return count() >= most_samples || (spent_ >= allowed && (count() >= 3 || seconds_[0] > allowed));
}

bool Samples::far_behind(double best) const {
  return spent_ > longest_hiccup && least() > far * best;
}

}  // namespace rapt::cli
