// The module `rapt._rapt`: attention and plans as Python sees them. What there is to know about the
// chips is in catalogue.cpp. Types and words for users are in python/rapt/_rapt.pyi.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>

#include "python/module/catalogue.hpp"
#include "python/module/help_texts.hpp"
#include "python/module/interruptible.hpp"
#include "python/module/memory.hpp"
#include "python/module/request.hpp"
#include "python/module/values.hpp"
#include "python/module/xla_calls.hpp"

namespace rapt_python {
namespace {

using nb::literals::operator""_a;

PyObject* exception_of(rapt::ErrorCode code) {
  switch (code) {
    case rapt::ErrorCode::invalid_argument: return PyExc_ValueError;
    case rapt::ErrorCode::unsupported: return PyExc_NotImplementedError;
    case rapt::ErrorCode::not_found: return PyExc_LookupError;
    case rapt::ErrorCode::out_of_memory: return PyExc_MemoryError;
    default: return PyExc_RuntimeError;
  }
}

// dropout_p is PyTorch's name for it.
double dropout_from(nb::handle dropout, nb::handle dropout_p) {
  if (!dropout.is_none() && !dropout_p.is_none()) refuse_two_names("dropout", "dropout_p");
  if (!dropout_p.is_none()) return number_from("dropout_p", dropout_p);
  return dropout.is_none() ? 0 : number_from("dropout", dropout);
}

// attention, its backward, plan and problem take the same arguments and differ in what they do with
// them.
template <class Action>
void define_call(nb::module_& module, const char* name, const char* signature, const char* text,
                 Action action) {
  module.def(
      name,
      [action, name](nb::object q, nb::object k, nb::object v, nb::args more, nb::object causal,
                     nb::object window, nb::object first_keys, nb::object offset,
                     nb::object softcap, nb::object dropout, nb::object dropout_p, nb::object scale,
                     nb::object max_q_len, nb::object max_kv_len, nb::object layout,
                     nb::object return_lse, nb::object batch_invariant, nb::object row_invariant,
                     nb::object tf32, nb::object kernel, nb::object out, nb::object out_dtype,
                     nb::kwargs others) {
        take_positions(name, {{"q", q}, {"k", k}, {"v", v}}, more, others);
        const Inputs inputs{.q = q,
                            .k = k,
                            .v = v,
                            .others = others,
                            .out = out,
                            .out_dtype = out_dtype_from(out_dtype),
                            .layout = text_from("layout", layout),
                            .lse = truth_from("return_lse", return_lse),
                            .function = name};
        const std::int64_t first = integer_from("first_keys", first_keys);
        Settings settings;
        settings.options = {.causal = truth_from("causal", causal),
                            .window = window_from(window, first),
                            .offset = optional_from(integer_from, "offset", offset),
                            .scale = optional_from(float_from, "scale", scale),
                            .softcap = float_from("softcap", softcap),
                            .dropout = dropout_from(dropout, dropout_p),
                            .batch_invariant = truth_from("batch_invariant", batch_invariant),
                            .row_invariant = truth_from("row_invariant", row_invariant),
                            .tf32 = truth_from("tf32", tf32),
                            .max_q_len = optional_from(integer_from, "max_q_len", max_q_len),
                            .max_kv_len = optional_from(integer_from, "max_kv_len", max_kv_len)};
        settings.kernel = optional_from(text_from, "kernel", kernel).value_or("");
        settings.layout = inputs.layout;
        return action(inputs, settings);
      },
      by_position(), by_position(), by_position(), "more"_a, "causal"_a.none() = false,
      "window"_a = nb::none(), "first_keys"_a.none() = 0, "offset"_a = nb::none(),
      "softcap"_a.none() = 0.0, "dropout"_a = nb::none(), "dropout_p"_a = nb::none(),
      "scale"_a = nb::none(), "max_q_len"_a = nb::none(), "max_kv_len"_a = nb::none(),
      "layout"_a.none() = "bshd", "return_lse"_a.none() = false, "batch_invariant"_a.none() = false,
      "row_invariant"_a.none() = false, "tf32"_a.none() = false, "kernel"_a = nb::none(),
      "out"_a = nb::none(), "out_dtype"_a = nb::none(), "others"_a, nb::sig(signature), text);
}

nb::object attention(const Inputs& inputs, const Settings& settings) {
  Request request(inputs, Request::Outputs::made);
  request.run(remembered_plan(request, settings));
  return request.result();
}

nb::object attention_backward(Inputs inputs, const Settings& settings) {
  inputs.operation = rapt::Operation::backward;
  return attention(inputs, settings);
}

// A plan, and the layout of the arrays it was made for: strides alone do not tell it, since an
// array may be a view with its axes exchanged.
struct Plan {
  rapt::Plan plan;
  std::string layout;
};

Plan planned(const rapt::Problem& problem, const rapt::Device& device, const std::string& kernel,
             const rapt::Config& config, const std::string& layout) {
  return {
      rapt::Plan(problem, device,
                 {.kernel = kernel, .config = config, .executor = interruptible_threads(device)}),
      layout};
}

Plan plan(Inputs inputs, const Settings& settings) {
  inputs.operation = operation_of(inputs.others);
  const Request request(inputs, Request::Outputs::imagined);
  const rapt::Problem problem = problem_of(request, settings.options, settings.layout);
  return planned(problem, request.device(), settings.kernel, {}, inputs.layout);
}

std::string problem(Inputs inputs, const Settings& settings) {
  inputs.operation = operation_of(inputs.others);
  const Request request(inputs, Request::Outputs::imagined);
  return problem_of(request, settings.options, settings.layout).to_string();
}

nb::object run_plan(const Plan& self, nb::object q, nb::object k, nb::object v, nb::args more,
                    nb::object other_layout, nb::object out, nb::kwargs others) {
  constexpr const char* name = "Plan.run";
  take_positions(name, {{"q", q}, {"k", k}, {"v", v}}, more, others);
  const rapt::Plan& plan = self.plan;
  const rapt::Problem& problem = plan.problem();
  const bool forward = problem.operation == rapt::Operation::forward;
  const Inputs inputs{
      .q = q,
      .k = k,
      .v = v,
      .others = others,
      .out = out,
      .out_dtype = forward ? problem.out_dtype : problem.dq_dtype,
      .layout = optional_from(text_from, "layout", other_layout).value_or(self.layout),
      .lse = forward && problem.lse,
      .operation = problem.operation,
      .function = name};
  Request request(inputs, Request::Outputs::made);
  const rapt::Device& device = request.device();
  if (device.backend != plan.device().backend || device.index != plan.device().index) {
    throw rapt::Error(rapt::ErrorCode::invalid_argument,
                      "q lies on " + device.to_string() + " and the plan is for " +
                          plan.device().to_string() + "; make a plan for each device");
  }
  request.run(plan);
  return request.result();
}

void define_plan(nb::module_& module) {
  nb::class_<Plan>(module, "Plan", help::Plan_text)
      .def(
          "__init__",
          [](Plan* self, nb::object problem, nb::args more, nb::object device, nb::object kernel,
             nb::object config, nb::kwargs others) {
            take_positions("Plan", {{"problem", problem}}, more, others);
            for (const auto& other : others) refuse_keyword("Plan", other.first);
            const std::string text = text_from("problem", problem);
            const std::string on = text_from("device", device);
            const auto named = optional_from(text_from, "kernel", kernel);
            const auto options = optional_from(text_from, "config", config);
            const bool heads_first = text.find("bhsd") != std::string::npos;
            new (self) Plan(planned(rapt::Problem::parse(text), rapt::Device::parse(on),
                                    named.value_or(""), rapt::Config::parse(options.value_or("")),
                                    heads_first ? "bhsd" : "bshd"));
          },
          by_position(), "more"_a, "device"_a.none() = "cpu", "kernel"_a = nb::none(),
          "config"_a = nb::none(), "others"_a, nb::sig(help::Plan_init_signature))
      .def("__getstate__",
           [](const Plan& self) {
             return nb::make_tuple(self.plan.problem().to_string(), self.plan.device().to_string(),
                                   std::string(self.plan.kernel()), self.plan.config().to_string(),
                                   self.layout);
           })
      .def("__setstate__",
           [](Plan* self, const nb::tuple& state) {
             const auto text = [&](int index) { return nb::cast<std::string>(state[index]); };
             new (self) Plan(planned(rapt::Problem::parse(text(0)), rapt::Device::parse(text(1)),
                                     text(2), rapt::Config::parse(text(3)), text(4)));
           })
      .def_prop_ro("problem", [](const Plan& self) { return self.plan.problem().to_string(); })
      .def_prop_ro("device", [](const Plan& self) { return self.plan.device().to_string(); })
      .def_prop_ro("kernel", [](const Plan& self) { return std::string(self.plan.kernel()); })
      .def_prop_ro("config", [](const Plan& self) { return self.plan.config().to_string(); })
      .def_prop_ro("workspace_bytes", [](const Plan& self) { return self.plan.workspace_bytes(); })
      .def_ro("layout", &Plan::layout)
      .def("__repr__",
           [](const Plan& self) {
             return "<rapt.Plan '" + self.plan.problem().to_string() + "' on " +
                    self.plan.device().to_string() + ": " + std::string(self.plan.kernel()) + ">";
           })
      .def("run", &run_plan, by_position(), by_position(), by_position(), "more"_a,
           "layout"_a = nb::none(), "out"_a = nb::none(), "others"_a,
           nb::sig(help::Plan_run_signature), help::Plan_run_text);
}

void define_memory(nb::module_& module) {
  nb::class_<Memory>(module, "Memory")
      .def(nb::init<const std::string&, std::vector<std::int64_t>, const std::string&>(),
           "device"_a, "shape"_a, "dtype"_a)
      .def("__dlpack__",
           [](const Memory& self, nb::kwargs keywords) {
             return self.capsule(keywords.contains("max_version") &&
                                 !keywords["max_version"].is_none());
           })
      .def("__dlpack_device__", [](const Memory& self) {
        return nb::make_tuple(self.device().type, self.device().index);
      });
}

}  // namespace
}  // namespace rapt_python

NB_MODULE(_rapt, module) {
  using namespace rapt_python;
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const rapt::Error& error) {
      // A sentence may name a byte of a longer character.
      const char* text = error.what();
      const auto length = static_cast<Py_ssize_t>(std::strlen(text));
      const nb::object sentence = nb::steal(PyUnicode_DecodeUTF8(text, length, "backslashreplace"));
      if (sentence.is_valid()) PyErr_SetObject(exception_of(error.code()), sentence.ptr());
    }
  });
  define_call(module, "attention", help::attention_signature, help::attention_text, attention);
  define_call(module, "attention_backward", help::attention_backward_signature,
              help::attention_backward_text, attention_backward);
  define_call(module, "plan", help::plan_signature, help::plan_text, plan);
  define_call(module, "problem", help::problem_signature, help::problem_text, problem);
  define_plan(module);
  define_memory(module);
  define_catalogue(module);
  module.def("xla_handlers", &xla_handlers);
}
