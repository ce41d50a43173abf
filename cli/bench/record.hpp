// The files that a bench's rows go to. They are whole after every problem, so that a bench that is
// stopped keeps what it has measured.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cli/arrays/output_file.hpp"
#include "cli/bench/report.hpp"
#include "cli/interruption.hpp"

namespace rapt::cli {

// A place for text that grows: a file is replaced each time, a stream is appended to.
class GrowingFile {
 public:
  // Empty: nowhere; "-": standard output. Throws Error if nothing can be written there.
  explicit GrowingFile(std::string path);

  bool is_there() const { return !path_.empty(); }
  bool is_stream() const { return stream_ != nullptr; }
  const std::string& path() const { return path_; }
  void replace(const std::string& text) const;  // of a file
  void append(const std::string& text) const;   // to a stream

 private:
  std::string path_;
  std::unique_ptr<OutputFile> stream_;
};

class Record {
 public:
  // A wrong path is known now, not after the first problem.
  Record(const std::string& json, const std::string& csv) : json_(json), csv_(csv) {}

  // What the rows are rows of; before the first add().
  void begin(const BenchContext& context) { context_ = context; }
  // The rows of one more problem.
  void add(std::span<const Measurement> rows);
  // JSON for a stream, which has only one place for it: the end.
  void finish();

  const std::vector<Measurement>& rows() const { return rows_; }

 private:
  void interrupted();

  GrowingFile json_, csv_;
  BenchContext context_;
  std::vector<Measurement> rows_;
  std::int64_t problems_ = 0;
  bool finished_ = false;
  AtInterruption keep_{[this] { interrupted(); }};
};

}  // namespace rapt::cli
