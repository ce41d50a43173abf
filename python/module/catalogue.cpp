#include "python/module/catalogue.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "python/module/help_texts.hpp"
#include "python/module/request.hpp"
#include "python/module/values.hpp"

namespace rapt_python {
namespace {

using nb::literals::operator""_a;

// A candidate with text of its own: a kernel's name is a view in C++.
struct Candidate {
  std::string kernel;
  bool chosen;
  std::string refusal, config;
  double seconds;
  std::string bound;
  std::size_t workspace_bytes;
};

std::vector<Candidate> candidates_of(const rapt::Explanation& explanation) {
  std::vector<Candidate> all;
  for (const rapt::Candidate& c : explanation.candidates) {
    all.push_back({std::string(c.kernel), c.chosen, c.refusal, c.config.to_string(), c.seconds,
                   std::string(c.bound), c.workspace_bytes});
  }
  return all;
}

void define_explain(nb::module_& module) {
  nb::class_<Candidate>(module, "Candidate", help::Candidate_text)
      .def_ro("kernel", &Candidate::kernel)
      .def_ro("chosen", &Candidate::chosen)
      .def_ro("refusal", &Candidate::refusal)
      .def_ro("config", &Candidate::config)
      .def_ro("seconds", &Candidate::seconds)
      .def_ro("bound", &Candidate::bound)
      .def_ro("workspace_bytes", &Candidate::workspace_bytes);
  nb::class_<rapt::Explanation>(module, "Explanation", help::Explanation_text)
      .def_ro("problem", &rapt::Explanation::problem)
      .def_ro("device", &rapt::Explanation::device)
      .def_ro("reason", &rapt::Explanation::reason)
      .def_ro("warnings", &rapt::Explanation::warnings)
      .def_prop_ro("kernel", [](const rapt::Explanation& self) { return std::string(self.kernel); })
      .def_prop_ro("candidates", &candidates_of)
      .def("__str__", &rapt::Explanation::to_string)
      .def("__repr__", &rapt::Explanation::to_string);
  module.def(
      "explain",
      [](nb::object problem, nb::args more, nb::object device, nb::object kernel,
         nb::kwargs others) {
        take_positions("explain", {{"problem", problem}}, more, others);
        for (const auto& other : others) refuse_keyword("explain", other.first);
        const std::string text = text_from("problem", problem), on = text_from("device", device);
        const std::string name = optional_from(text_from, "kernel", kernel).value_or("");
        return rapt::explain(rapt::Problem::parse(text), rapt::Device::parse(on), {.kernel = name});
      },
      by_position(), "more"_a, "device"_a.none() = "cpu", "kernel"_a = nb::none(), "others"_a,
      nb::sig(help::explain_signature), help::explain_text);
}

// What such a function is given all the same gets a sentence.
template <class Function>
void define_without_arguments(nb::module_& module, const char* name, Function function,
                              const char* signature, const char* text) {
  module.def(
      name,
      [name, function](const nb::args& more, nb::kwargs others) {
        take_positions(name, {}, more, others);
        for (const auto& other : others) refuse_keyword(name, other.first);
        return function();
      },
      "more"_a, "others"_a, nb::sig(signature), text);
}

void define_devices(nb::module_& module) {
  nb::class_<rapt::Device>(module, "Device", help::Device_text)
      .def_ro("name", &rapt::Device::name)
      .def_ro("index", &rapt::Device::index)
      .def_ro("threads", &rapt::Device::threads)
      .def_prop_ro("backend",
                   [](const rapt::Device& self) { return std::string(rapt::name(self.backend)); })
      .def_prop_ro(
          "features",
          [](const rapt::Device& self) { return nb::str(self.features.c_str()).attr("split")(); })
      .def("__str__", &rapt::Device::to_string)
      .def("__repr__", [](const rapt::Device& self) {
        return "<rapt.Device " + self.to_string() + ": " + self.name + ">";
      });
  define_without_arguments(module, "devices", rapt::devices, help::devices_signature,
                           help::devices_text);
}

void define_kernels(nb::module_& module) {
  nb::class_<rapt::KernelInfo>(module, "Kernel", help::Kernel_text)
      .def_prop_ro("name", [](const rapt::KernelInfo& self) { return std::string(self.name); })
      .def_prop_ro("summary",
                   [](const rapt::KernelInfo& self) { return std::string(self.summary); })
      .def_prop_ro(
          "backend",
          [](const rapt::KernelInfo& self) { return std::string(rapt::name(self.backend)); })
      .def_ro("by_name_only", &rapt::KernelInfo::by_name_only)
      .def_prop_ro("operation",
                   [](const rapt::KernelInfo& self) { return std::string(name(self.operation)); })
      .def("__repr__", [](const rapt::KernelInfo& self) {
        return "<rapt.Kernel " + std::string(self.name) + ">";
      });
  define_without_arguments(module, "kernels", rapt::kernels, help::kernels_signature,
                           help::kernels_text);
}

}  // namespace

void define_catalogue(nb::module_& module) {
  define_explain(module);
  define_devices(module);
  define_kernels(module);
  define_without_arguments(
      module, "version", [] { return std::string(rapt::version()); }, help::version_signature,
      help::version_text);
  module.def("merge", &merge, by_position(), by_position(), "more"_a, "layout"_a.none() = "bshd",
             "out"_a = nb::none(), "others"_a, nb::sig(help::merge_signature), help::merge_text);
}

}  // namespace rapt_python
