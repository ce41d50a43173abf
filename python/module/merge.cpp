// merge() over arrays: two partial results go in, one comes out, on their device and in the stream
// that their library uses there.
#include "python/module/fault.hpp"
#include "python/module/request.hpp"
#include "python/module/values.hpp"

namespace rapt_python {
namespace {

// Where the first array lies: all others must too, and the work is done there.
struct Place {
  dlpack::Device device;
  void* stream;
};

Array array_at(const Place& place, const std::string& name, nb::handle object) {
  Array array(name, object, place.stream);
  check_device(name, array, "first.out", place.device);
  return array;
}

// (out, lse) as arrays. They go by the names they have in C++: first.out, result.lse.
struct Pair {
  Array out, lse;

  Pair(const std::string& name, const nb::object& pair, const Place& place)
      : out(array_at(place, name + ".out", pair[0])), lse(array_at(place, name + ".lse", pair[1])) {
    if (out.axes() < 3 || lse.axes() != out.axes() - 1) {
      fault(name + ".out has " + std::to_string(out.axes()) + " axes and " + name + ".lse " +
            std::to_string(lse.axes()) + "; merge wants 4 and 3, or 3 and 2");
    }
  }

  rapt::Partial partial(bool heads_first) const {
    const rapt::Tensor tensor = out.tensor(4 - out.axes());
    return {heads_first ? tensor.transposed(1, 2) : tensor, lse.tensor(3 - lse.axes())};
  }
};

void check_pair(const char* name, nb::handle object) {
  if (!PyTuple_Check(object.ptr()) && !PyList_Check(object.ptr())) {
    const std::string sentence =
        std::string(name) + " is " + kind_of(object) + "; merge takes pairs (out, lse)";
    throw nb::type_error(sentence.c_str());
  }
  if (nb::len(object) != 2)
    fault(name, " has ", std::to_string(nb::len(object)), " parts; merge takes pairs (out, lse)");
}

nb::object new_like(nb::handle object, const Array& array) {
  const rapt::Tensor tensor = array.tensor(4 - array.axes());
  const auto missing = static_cast<std::size_t>(4 - array.axes());
  return new_array(object, std::span(tensor.size).subspan(missing), array.dtype());
}

}  // namespace

nb::object merge(nb::object first, nb::object second, const nb::args& more,
                 const nb::object& layout_name, const nb::object& out, nb::kwargs others) {
  take_positions("merge", {{"first", first}, {"second", second}}, more, others);
  for (const auto& other : others) refuse_keyword("merge", other.first);
  const std::string layout = text_from("layout", layout_name);
  if (layout != "bshd" && layout != "bhsd")
    fault("the layout is '" + layout + "'; it is bshd or bhsd");
  check_pair("first", first);
  check_pair("second", second);
  if (!out.is_none()) check_pair("out", out);
  const bool heads_first = layout == "bhsd";
  const nb::object like = first[0];
  const dlpack::Device device = device_of("first.out", like);
  const Place place{device, current_stream(like, device)};
  const Pair a("first", first, place), b("second", second, place);
  const nb::tuple written = out.is_none()
                                ? nb::make_tuple(new_like(like, a.out), new_like(like, a.lse))
                                : nb::make_tuple(out[0], out[1]);
  const Pair result("result", written, place);
  check_writable("result.out", result.out);
  check_writable("result.lse", result.lse);
  const rapt::Device& chip = rapt_device(device);
  {
    const nb::gil_scoped_release released;
    rapt::merge(a.partial(heads_first), b.partial(heads_first), result.partial(heads_first), chip,
                {.stream = place.stream});
  }
  if (!out.is_none()) return written;
  return nb::make_tuple(finished(like, written[0]), finished(like, written[1]));
}

}  // namespace rapt_python
