// The tensors of Arguments by name.
#pragma once

#include <array>
#include <utility>

#include "rapt/rapt.hpp"

namespace rapt {

inline constexpr std::array<std::pair<const char*, Tensor Arguments::*>, 13> named_tensors = {{
    {"q", &Arguments::q},
    {"k", &Arguments::k},
    {"v", &Arguments::v},
    {"out", &Arguments::out},
    {"lse", &Arguments::lse},
    {"bias", &Arguments::bias},
    {"mask", &Arguments::mask},
    {"alibi", &Arguments::alibi},
    {"sinks", &Arguments::sinks},
    {"q_starts", &Arguments::q_starts},
    {"kv_starts", &Arguments::kv_starts},
    {"kv_lengths", &Arguments::kv_lengths},
    {"page_table", &Arguments::page_table},
}};

}  // namespace rapt
