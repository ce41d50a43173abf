#include "cli/bench/samples.hpp"

#include <algorithm>

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

double Samples::median() const {
  std::vector<double> sorted = seconds_;
  std::ranges::sort(sorted);
  const std::size_t middle = sorted.size() / 2;
  return sorted.size() % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
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
