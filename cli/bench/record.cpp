#include "cli/bench/record.hpp"

#include <fmt/format.h>

#include <utility>

#include "cli/program.hpp"
#include "src/core/text.hpp"

namespace rapt::cli {

GrowingFile::GrowingFile(std::string path) : path_(std::move(path)) {
  if (path_.empty()) return;
  auto file = std::make_unique<OutputFile>(path_);
  if (file->is_stream()) stream_ = std::move(file);
}

void GrowingFile::replace(const std::string& text) const {
  OutputFile file(path_);
  file.write(text);
  file.commit();
}

void GrowingFile::append(const std::string& text) const { stream_->write(text); }

void Record::add(std::span<const Measurement> rows) {
  const Uninterrupted writing;
  const bool first = rows_.empty();
  rows_.insert(rows_.end(), rows.begin(), rows.end());
  ++problems_;
  if (json_.is_there() && !json_.is_stream()) json_.replace(json_report(context_, rows_));
  if (!csv_.is_there()) return;
  if (!csv_.is_stream()) {
    csv_.replace(csv_report(rows_));
  } else {
    std::string lines = csv_report(rows);
    if (!first) lines.erase(0, lines.find('\n') + 1);  // the header
    csv_.append(lines);
  }
}

void Record::finish() {
  const Uninterrupted writing;
  if (json_.is_stream() && !finished_) json_.append(json_report(context_, rows_));
  finished_ = true;
}

void Record::interrupted() {
  finish();
  std::string places;
  for (const GrowingFile* file : {&json_, &csv_}) {
    if (file->is_there() && !file->is_stream())
      places += fmt::format("{}{}", places.empty() ? "" : " and ", file->path());
  }
  if (problems_ == 0) {
    print_error("stopped before the first problem was done");
  } else if (!places.empty()) {
    print_error(
        fmt::format("stopped; the rows of {} are in {}", counted(problems_, "problem"), places));
  }
}

}  // namespace rapt::cli
