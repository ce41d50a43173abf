#include "src/library/tuning.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <system_error>
#include <unordered_map>

#include "src/core/environment.hpp"
#include "src/core/text.hpp"

namespace rapt {
namespace {

// Two looks at the same file that agree in this saw the same content.
struct Identity {
  std::string path;
  dev_t device = 0;
  ino_t inode = 0;
  off_t size = 0;
  std::int64_t seconds = 0, nanoseconds = 0;  // of the last change
  bool operator==(const Identity&) const = default;
};

struct Content {
  Identity identity;
  std::unordered_map<std::string, TunedWinner> winners;  // by key_of()
  std::string warning;                                   // why the whole file is ignored
};

std::string key_of(const std::string& machine, const std::string& problem) {
  return text(machine, "\n", problem);
}

// Nobody is told to remove a folder.
std::string ignored_file(std::string_view why, const std::string& path) {
  std::error_code unknown;
  const bool removable = std::filesystem::is_regular_file(path, unknown);
  return text(why, "; it is ignored as a whole: ", removable ? "remove it or " : "",
              "let RAPT_TUNING name another, then run `rapt tune` again");
}

std::shared_ptr<const Content> read(const Identity& identity) {
  auto content = std::make_shared<Content>();
  content->identity = identity;
  try {
    for (TunedWinner& winner : read_tuning_file(identity.path)) {
      std::string key = key_of(winner.machine, winner.problem);
      const auto [place, is_new] = content->winners.try_emplace(std::move(key), winner);
      if (!is_new && winner.version == version()) place->second = std::move(winner);
    }
  } catch (const Error& error) {
    content->warning = ignored_file(error.what(), identity.path);
  }
  return content;
}

// The file is read outside the lock, so that no thread waits for a disk.
std::shared_ptr<const Content> content_of(const Identity& identity) {
  static std::mutex mutex;
  static std::shared_ptr<const Content> latest;
  {
    const std::lock_guard lock(mutex);
    if (latest && latest->identity == identity) return latest;
  }
  std::shared_ptr<const Content> content = read(identity);
  const std::lock_guard lock(mutex);
  latest = content;
  return content;
}

}  // namespace

std::string stale_winner(const Problem& problem, const std::string& file, const std::string& why) {
  return text("the winner for '", problem.to_string(), "' in ", file,
              " is stale and ignored: ", why, "; run `rapt tune` again");
}

Tuning tuning_for(const Problem& problem, const Device& device) {
  Tuning tuning;
  tuning.file = tuning_file_path();
  if (tuning.file.empty()) return tuning;
  struct stat status;
  if (stat(tuning.file.c_str(), &status) != 0) {
    // Only a file that somebody named is missed.
    if (environment_value("RAPT_TUNING")) {
      tuning.warnings.push_back(text("RAPT_TUNING names ", tuning.file, ", which cannot be read: ",
                                     std::strerror(errno), "; `rapt tune` would write it"));
    }
    return tuning;
  }
  const auto content = content_of({tuning.file, status.st_dev, status.st_ino, status.st_size,
                                   status.st_mtim.tv_sec, status.st_mtim.tv_nsec});
  if (!content->warning.empty()) {
    tuning.warnings.push_back(content->warning);
    return tuning;
  }
  if (content->winners.empty()) return tuning;
  const auto found = content->winners.find(key_of(tuning_machine(device), problem.to_string()));
  if (found == content->winners.end()) return tuning;
  if (found->second.version == version()) {
    tuning.winner = found->second;
  } else {
    tuning.warnings.push_back(stale_winner(
        problem, tuning.file,
        text("it was measured by rapt ", found->second.version, ", this is rapt ", version())));
  }
  return tuning;
}

}  // namespace rapt
