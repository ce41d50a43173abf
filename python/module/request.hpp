// One call of attention, or of its gradients, as Python makes it: arrays and options go in, rapt's
// arguments come out, with new arrays for what the caller did not give.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "python/module/array.hpp"

namespace rapt_python {

// The arrays of a call.
struct Inputs {
  nb::object q, k, v;
  nb::kwargs others;                     // by the names that rapt::tensors() has; None where absent
  nb::object out;                        // None, an array, or a pair (out, lse)
  std::optional<rapt::DType> out_dtype;  // of a new result; absent: as q's
  std::string layout = "bshd";
  bool lse = false;
  rapt::Operation operation = rapt::Operation::forward;
  const char* function = "attention";  // that is called
};

// Everything but arrays.
struct Settings {
  rapt::Options options;
  std::string kernel;  // empty: rapt's choice
  std::string layout;  // of the arrays
};

// None, or "f32".
std::optional<rapt::DType> out_dtype_from(nb::handle name);

class Request {
 public:
  // With Outputs::imagined, results that are not given are only described: enough for a problem,
  // not for a run.
  enum class Outputs { made, imagined };
  Request(const Inputs& inputs, Outputs outputs);

  const rapt::Arguments& arguments() const { return arguments_; }
  const rapt::Device& device() const { return rapt_device(device_); }
  // Runs with the GIL released.
  void run(const rapt::Plan& plan);
  nb::object result();  // out, (out, lse), or Gradients

 private:
  const Array& import(const char* name, nb::handle object);
  rapt::Tensor main_tensor(const char* name, nb::handle object);
  void read_others(const nb::kwargs& others, const char* function);
  const Array& import_other(const rapt::TensorInfo& info, const char* name, nb::handle object);
  rapt::Tensor other_tensor(const rapt::TensorInfo& info, const char* name, nb::handle object);
  rapt::Tensor lse_tensor(const char* name, nb::handle object);
  rapt::Tensor tensor(const rapt::TensorInfo& info, const char* name, nb::handle object);
  void make_outputs(const Inputs& inputs, Outputs outputs);

  // Of backward, in backward.cpp.
  void read_results(const Inputs& inputs);
  void make_gradients(const Inputs& inputs, Outputs outputs);
  const Array& imported(std::string_view name) const;
  nb::object gradients();

  nb::object like_;  // q: its library makes new arrays
  rapt::Operation operation_;
  int q_axes_ = 4;
  bool heads_first_;
  dlpack::Device device_;
  void* stream_;
  std::array<std::optional<Array>, 24> arrays_;  // as many as a call has
  std::array<std::string_view, 24> names_;       // of them
  std::size_t array_count_ = 0;
  std::vector<nb::object> copies_;  // of what was not an array as rapt takes it
  nb::object out_, lse_;
  bool out_is_new_ = false, lse_is_new_ = false;
  struct Gradient {
    std::string name;
    nb::object array;
    bool is_new;
  };
  std::vector<Gradient> gradients_;  // that are wanted
  rapt::Arguments arguments_;
};

// Whether a call with these arrays is backward: dout is among them.
rapt::Operation operation_of(const nb::kwargs& others);

// The problem of a call; arrays that look as if they had the other layout get a hint at it.
rapt::Problem problem_of(const Request& request, const rapt::Options& options,
                         const std::string& layout);

// Two results (out, lse) over disjoint sets of keys as one.
nb::object merge(nb::object first, nb::object second, const nb::args& more,
                 const nb::object& layout, const nb::object& out, nb::kwargs others);

// The plan of a problem, made at its first use and remembered.
rapt::Plan remembered_plan(const Request& request, const Settings& settings);

}  // namespace rapt_python
