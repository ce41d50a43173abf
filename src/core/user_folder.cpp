#include "src/core/user_folder.hpp"

#include "src/core/environment.hpp"
#include "src/core/text.hpp"

namespace rapt {

std::string user_folder(const char* variable, std::string_view below_home) {
  std::string folder = environment_text(variable);
  if (folder.starts_with('/')) return folder;
  const std::string home = environment_text("HOME");
  return home.starts_with('/') ? text(home, "/", below_home) : "";
}

}  // namespace rapt
