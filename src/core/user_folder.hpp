// Where a user keeps the files of programs: the folders of the XDG base directory specification.
#pragma once

#include <string>
#include <string_view>

namespace rapt {

// What `variable` (XDG_CONFIG_HOME) names, if that is an absolute path; else `below_home` (.config)
// in HOME; else nothing.
std::string user_folder(const char* variable, std::string_view below_home);

}  // namespace rapt
