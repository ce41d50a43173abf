// An environment variable for the time of a test.
#pragma once

#include <cstdlib>
#include <string>

namespace rapt::test {

class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old, was_set_ = true;
    ::setenv(name, value, 1);
  }
  ~ScopedVariable() {
    if (was_set_)
      ::setenv(name_, old_.c_str(), 1);
    else
      ::unsetenv(name_);
  }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  const char* name_;
  std::string old_;
  bool was_set_ = false;
};

}  // namespace rapt::test
