#include "cli/arrays/output_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "rapt/rapt.hpp"

namespace rapt::cli {
namespace {

// Past symbolic links, so that a link stays a link.
std::string real_path(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_symlink(path, error)) return path;
  const auto target = std::filesystem::weakly_canonical(path, error);
  return error ? path : target.string();
}

bool is_device_or_pipe(const std::string& path) {
  struct stat status;
  return stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

}  // namespace

OutputFile::OutputFile(std::string path)
    : path_(std::move(path)), target_(real_path(path_)), file_(nullptr, std::fclose) {
  if (is_standard_stream(path_)) {
    stream_ = true;
    file_ = {stdout, std::fflush};
    return;
  }
  std::error_code unknown;
  if (std::filesystem::is_directory(target_, unknown)) {
    errno = EISDIR;
    fault();
  }
  if (is_device_or_pipe(target_)) {
    file_.reset(std::fopen(target_.c_str(), "wb"));
    if (!file_) fault();
    stream_ = true;
    return;
  }
  const Uninterrupted making;
  std::string pattern = target_ + ".XXXXXX";
  const int descriptor = mkostemp(pattern.data(), O_CLOEXEC);
  if (descriptor < 0) fault();
  temporary_ = pattern;
  remove_.emplace([pattern] { unlink(pattern.c_str()); });
  file_.reset(fdopen(descriptor, "wb"));
  if (!file_) fault();
}

OutputFile::~OutputFile() {
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void OutputFile::write(std::string_view text) { write(std::as_bytes(std::span(text))); }

void OutputFile::write(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;  // its pointer may be null, which fwrite() does not take
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size()) fault();
  if (std::fflush(file_.get()) != 0) fault();
}

void OutputFile::commit() {
  if (temporary_.empty()) return;
  // mkostemp() makes a file for its owner only; this one gets the rights of any other new file.
  const mode_t mask = umask(0);
  umask(mask);
  if (fchmod(fileno(file_.get()), 0666 & ~mask) != 0) fault();
  if (std::fclose(file_.release()) != 0) fault();
  if (std::rename(temporary_.c_str(), target_.c_str()) != 0) fault();
  temporary_.clear();
  remove_.reset();
}

void OutputFile::fault() const {
  const bool standard = is_standard_stream(path_);
  // A reader that went away early had what it wanted; the program knows this error.
  if (standard && errno == EPIPE) throw std::system_error(errno, std::generic_category());
  throw Error(ErrorCode::invalid_argument,
              fmt::format("cannot write {}: {}; give a place that can be written to",
                          standard ? "standard output" : path_, std::strerror(errno)));
}

}  // namespace rapt::cli
