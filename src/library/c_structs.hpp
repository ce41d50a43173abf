// From the structs of rapt.h to the types of rapt.hpp. Every field is looked at; what is wrong is
// an Error that names the struct and the field.
#pragma once

#include "rapt/rapt.h"
#include "rapt/rapt.hpp"

namespace rapt::c {

Tensor tensor_from(const rapt_tensor& given, std::string_view name);
rapt_tensor tensor_to(const Tensor& tensor);
Arguments arguments_from(const rapt_arguments* given);
Options options_from(const rapt_options* given);  // null: the defaults
Launch launch_from(const rapt_launch* given);     // null: no workspace
Partial partial_from(const rapt_partial* given, std::string_view name);
Device device_from(const char* text);  // null: the CPU
DType dtype_from(std::int32_t value, std::string_view name);

// The current version's structs, with what lies outside the caller's struct_size set to zero.
rapt_plan_options plan_options_from(const rapt_plan_options* given);  // null: the defaults
std::optional<std::size_t> workspace_limit_from(const rapt_plan_options& options);
rapt_executor executor_from(const rapt_executor* given);
rapt_merge_options merge_options_from(const rapt_merge_options* given);  // null: the defaults

void device_to(const Device& device, rapt_device_properties* target);
std::size_t struct_size_of(std::string_view name);

}  // namespace rapt::c
