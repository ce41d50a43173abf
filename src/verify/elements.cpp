#include "src/verify/elements.hpp"

#include "src/core/call.hpp"

namespace rapt::verify {

void to_elements(DType dtype, std::span<const float> source, void* target) {
  with_element_type(dtype, [&](auto type) {
    auto* element = static_cast<decltype(type)*>(target);
    for (const float value : source) *element++ = from_float<decltype(type)>(value);
  });
}

void from_elements(DType dtype, const void* source, std::span<float> target) {
  with_element_type(dtype, [&](auto type) {
    const auto* element = static_cast<const decltype(type)*>(source);
    for (float& value : target) value = to_float(*element++);
  });
}

}  // namespace rapt::verify
