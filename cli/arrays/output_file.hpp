// A file that appears whole or not at all.
#pragma once

#include <cstddef>
#include <cstdio>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "cli/interruption.hpp"

namespace rapt::cli {

// Written beside its place under another name, and moved there by commit(). What was there before
// stays until then, and if commit() is never reached or the program is interrupted. A device or
// pipe is written to directly, and so is standard output, whose name is "-".
class OutputFile {
 public:
  explicit OutputFile(std::string path);  // throws Error if nothing can be written there
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // Nothing is left to fail for lack of space once these have returned.
  void write(std::string_view text);
  void write(std::span<const std::byte> bytes);
  void commit();

  // Written to directly: what is written is there at once, and never taken back.
  bool is_stream() const { return stream_; }

 private:
  [[noreturn]] void fault() const;  // with the sentence of errno

  std::string path_;       // as given
  std::string target_;     // what it leads to, past links
  std::string temporary_;  // empty: written directly, or committed
  bool stream_ = false;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
  std::optional<AtInterruption> remove_;  // what is temporary
};

// Whether a path is "-": standard output, or standard input.
inline bool is_standard_stream(std::string_view path) { return path == "-"; }

}  // namespace rapt::cli
