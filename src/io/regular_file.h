#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace attend {

/// Whether the last component of a path may be a symbolic link. Downloaded models are folders of links into a cache.
/// The state of a training run never contains links.
enum class Links { follow, refuse };

/// Owns a file descriptor and closes it.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  explicit operator bool() const { return value_ >= 0; }
  int get() const { return value_; }

 private:
  int value_ = -1;
};

/// Opens a regular file for reading. Never blocks on a pipe or a device. Throws FormatError, which names the path.
Descriptor open_regular(const std::string& path, Links links = Links::follow);
/// Opens a regular file for appending and creates it if it does not exist. Refuses a symbolic link. Throws Error, which
/// names the path.
Descriptor open_for_appending(const std::string& path);

/// Reads a whole regular file. Throws FormatError if the path is not a regular file, if it cannot be read, or if it has
/// more than `limit` bytes.
std::string read_regular(const std::string& path, int64_t limit, Links links);

/// Log lines longer than this are skipped.
constexpr size_t kLongestLogLine = size_t{1} << 20;
/// Calls `visit` with each line of a log. Returns false if the file does not exist. Throws as open_regular() does.
bool for_each_log_line(const std::string& path, Links links, const std::function<void(std::string_view)>& visit);

}  // namespace attend
