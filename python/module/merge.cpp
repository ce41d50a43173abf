// merge() over arrays: two partial results go in, one comes out.
#include <array>

#include "python/module/request.hpp"

namespace rapt_python {
namespace {

struct Pair {
  Array out, lse;

  Pair(const nb::object& out_object, const nb::object& lse_object, void* stream)
      : out("out", out_object, stream), lse("lse", lse_object, stream) {
    if (out.axes() < 3 || lse.axes() != out.axes() - 1) {
      throw rapt::Error(rapt::ErrorCode::invalid_argument,
                        "out has " + std::to_string(out.axes()) + " axes and lse " +
                            std::to_string(lse.axes()) + "; merge wants 4 and 3, or 3 and 2");
    }
  }

  rapt::Partial partial(bool heads_first) const {
    const rapt::Tensor tensor = out.tensor(4 - out.axes());
    return {heads_first ? tensor.transposed(1, 2) : tensor, lse.tensor(3 - lse.axes())};
  }
};

nb::object new_like(const nb::object& object, const Array& array) {
  const rapt::Tensor tensor = array.tensor(4 - array.axes());
  const auto missing = static_cast<std::size_t>(4 - array.axes());
  return new_array(object, std::span(tensor.size).subspan(missing), array.dtype());
}

}  // namespace

nb::object merge(const nb::tuple& first, const nb::tuple& second, const std::string& layout,
                 const nb::object& out) {
  if (layout != "bshd" && layout != "bhsd") {
    throw rapt::Error(rapt::ErrorCode::invalid_argument,
                      "the layout is '" + layout + "'; it is bshd or bhsd");
  }
  if (nb::len(first) != 2 || nb::len(second) != 2 || (!out.is_none() && nb::len(out) != 2)) {
    throw rapt::Error(rapt::ErrorCode::invalid_argument, "merge takes pairs (out, lse)");
  }
  const bool heads_first = layout == "bhsd";
  const nb::object like = first[0];
  const dlpack::Device device = device_of(like);
  void* const stream = current_stream(like, device);
  const Pair a(first[0], first[1], stream), b(second[0], second[1], stream);
  const nb::object out_array = out.is_none() ? new_like(like, a.out) : nb::object(out[0]);
  const nb::object lse_array = out.is_none() ? new_like(like, a.lse) : nb::object(out[1]);
  const Pair result(out_array, lse_array, stream);
  {
    const nb::gil_scoped_release released;
    rapt::merge(a.partial(heads_first), b.partial(heads_first), result.partial(heads_first),
                rapt_device(device));
  }
  if (!out.is_none()) return nb::make_tuple(out_array, lse_array);
  return nb::make_tuple(finished(like, out_array), finished(like, lse_array));
}

}  // namespace rapt_python
