// A progress bar on stderr for long work. Silent where stderr is not a terminal.
#pragma once

#include <cstdint>
#include <string_view>

namespace rapt::cli {

class Progress {
 public:
  explicit Progress(std::int64_t total);  // steps in all
  ~Progress();                            // wipes the bar
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Shows what is being worked on now, after `done` steps.
  void show(std::int64_t done, std::string_view what);
  // Wipes the bar, so that a line of results can be printed; the next show() draws it again.
  void hide();

 private:
  std::int64_t total_;
  bool terminal_, visible_ = false;
};

}  // namespace rapt::cli
