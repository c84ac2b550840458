#include "io/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "attend/base/error.h"

namespace attend {
namespace {

/// Returns the number of bytes read, 0 at the end of the file.
size_t read_some(const Descriptor& file, char* to, size_t size, const std::string& path) {
  ssize_t count = -1;
  do {
    count = ::read(file.get(), to, size);
  } while (count < 0 && errno == EINTR);
  require<FormatError>(count >= 0, path, ": cannot read: ", std::strerror(errno));
  return static_cast<size_t>(count);
}

/// Called before opening as well, because opening a device can have side effects.
template <class E>
void check_kind(const struct stat& status, const std::string& path) {
  require<E>(!S_ISLNK(status.st_mode), path, ": expected a regular file, got a symbolic link");
  require<E>(!S_ISDIR(status.st_mode), path, ": expected a regular file, got a folder");
  require<E>(S_ISREG(status.st_mode), path, ": expected a regular file, got a pipe or a device");
}

int look_up(const std::string& path, Links links, struct stat& status) {
  return links == Links::follow ? stat(path.c_str(), &status) : lstat(path.c_str(), &status);
}

}  // namespace

Descriptor::~Descriptor() {
  if (value_ >= 0) close(value_);
}

Descriptor open_regular(const std::string& path, Links links) {
  struct stat status {};
  const int found = look_up(path, links, status);  // a separate statement: errno is read below
  require<FormatError>(found == 0, path, ": cannot open: ", std::strerror(errno));
  check_kind<FormatError>(status, path);
  const int no_links = links == Links::refuse ? O_NOFOLLOW : 0;
  Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | no_links));
  require<FormatError>(bool(file), path, ": cannot open: ", std::strerror(errno));
  const int looked = fstat(file.get(), &status);
  require<FormatError>(looked == 0, path, ": cannot read: ", std::strerror(errno));
  check_kind<FormatError>(status, path);
  return file;
}

Descriptor open_for_appending(const std::string& path) {
  struct stat status {};
  if (lstat(path.c_str(), &status) == 0) check_kind<Error>(status, path);
  Descriptor file(open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW, 0666));
  const bool is_open = file && fstat(file.get(), &status) == 0;
  require<Error>(is_open, path, ": cannot open for writing: ", std::strerror(errno));
  check_kind<Error>(status, path);
  return file;
}

std::string read_regular(const std::string& path, int64_t limit, Links links) {
  const Descriptor file = open_regular(path, links);
  std::string content;
  char block[1 << 16];
  while (const size_t count = read_some(file, block, sizeof block, path)) {
    content.append(block, count);
    require<FormatError>(static_cast<int64_t>(content.size()) <= limit, path, ": is larger than ", limit, " bytes");
  }
  return content;
}

bool for_each_log_line(const std::string& path, Links links, const std::function<void(std::string_view)>& visit) {
  struct stat status {};
  const int found = look_up(path, links, status);
  if (found != 0 && (errno == ENOENT || errno == ENOTDIR)) return false;
  const Descriptor file = open_regular(path, links);
  std::string line;
  bool is_too_long = false;
  const auto end_line = [&] {
    if (!is_too_long) visit(line);
    line.clear();
    is_too_long = false;
  };
  char block[1 << 16];
  while (const size_t count = read_some(file, block, sizeof block, path)) {
    std::string_view rest(block, count);
    while (!rest.empty()) {
      const size_t size = rest.find('\n');
      const std::string_view piece = rest.substr(0, size);
      is_too_long = is_too_long || line.size() + piece.size() > kLongestLogLine;
      if (!is_too_long) line += piece;
      if (size == std::string_view::npos) break;
      end_line();
      rest.remove_prefix(size + 1);
    }
  }
  if (!line.empty()) end_line();
  return true;
}

}  // namespace attend
