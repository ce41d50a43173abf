// A kernel, as the registry knows it: plain data and functions.
//
// supports() is a promise: if it says yes, what prepare() returns runs and is right for every call
// within the problem's sizes. The conformance harness (src/verify) holds every registered kernel to
// that. docs/adding-a-kernel.md walks through one.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "rapt/rapt.hpp"
#include "src/semantics/call.hpp"
#include "src/semantics/gradients.hpp"

namespace rapt {

// What a plan is made of. Problem, device and config live as long as the plan does.
struct Task {
  const Problem& problem;
  const Device& device;  // on the CPU, device.threads is how many the task may use at once
  const Config& config;
  Executor* executor;  // null on a GPU, and while kernels are weighed
};

// What a kernel made of a task, once for all runs of a plan: tiles, schedule, decoded config,
// handles.
class Prepared {
 public:
  virtual ~Prepared() = default;
  // Fills in pointers and launches. The call has the sizes of this run: the problem's, or less
  // where those are bounds. Gradients belong to backward. Allocates nothing; safe from many threads
  // at once.
  virtual void run(const semantics::Call& call, const semantics::Gradients& gradients,
                   const Launch& launch) const = 0;
};

// From function(call, launch), or function(call, gradients, launch), which keeps what it needs.
template <class Function>
std::unique_ptr<const Prepared> prepared(Function function) {
  class Kept final : public Prepared {
   public:
    explicit Kept(Function function) : function_(std::move(function)) {}
    void run(const semantics::Call& call, const semantics::Gradients& gradients,
             const Launch& launch) const override {
      if constexpr (std::is_invocable_v<const Function&, const semantics::Call&,
                                        const semantics::Gradients&, const Launch&>)
        function_(call, gradients, launch);
      else
        function_(call, launch);
    }

   private:
    Function function_;
  };
  return std::make_unique<const Kept>(std::move(function));
}

// Yes, or a refusal: a sentence a user can act on.
struct Support {
  std::string refusal;
  static Support yes() { return {}; }
  static Support no(std::string sentence) { return {std::move(sentence)}; }
  explicit operator bool() const { return refusal.empty(); }
};

struct Estimate {
  double seconds;
  std::string_view bound;  // compute, memory or overhead
};

struct Kernel {
  std::string_view name, summary;
  Backend backend;
  Operation operation = Operation::forward;
  // Takes `batch-invariant:rows`: what a row meets, and in which order, follows from the row alone.
  bool row_invariant = false;
  bool by_name_only;  // never chosen by itself
  Support (*supports)(const Problem&, const Device&);
  // All it can run with, best guess first; never empty.
  std::vector<Config> (*configs)(const Problem&, const Device&);
  Estimate (*estimate)(const Task&);
  // Enough for every call within the problem's sizes.
  std::size_t (*workspace)(const Task&);
  std::unique_ptr<const Prepared> (*prepare)(const Task&);
};

// What a kernel says to a problem of any operation and invariance.
Support support_of(const Kernel& kernel, const Problem& problem, const Device& device);

// For kernels that have nothing to tune.
inline std::vector<Config> one_empty_config(const Problem&, const Device&) { return {Config{}}; }

// The least time for so much work at such rates, plus a fixed overhead, and which of the three
// dominates.
Estimate estimate_from(double flops, double flops_per_second, double bytes, double bytes_per_second,
                       double overhead);

}  // namespace rapt
