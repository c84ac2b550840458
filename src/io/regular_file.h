#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace attend {

/// Whether the last part of a path may be a symbolic link. Downloaded models are folders of links into a cache; the
/// state of a training run never is.
enum class Links { follow, refuse };

/// An open file, closed with this object.
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

/// Opens a regular file for reading. A pipe or a device is never waited for. Throws FormatError that names the path.
Descriptor open_regular(const std::string& path, Links links = Links::follow);
/// Opens a regular file for appending, made if it is not there. A link is refused. Throws Error that names the path.
Descriptor open_for_appending(const std::string& path);

/// The whole of a regular file. Throws FormatError if it is not one, cannot be read or has more than `limit` bytes.
std::string read_regular(const std::string& path, int64_t limit, Links links);

/// Longer lines of a log are skipped.
constexpr size_t kLongestLogLine = size_t{1} << 20;
/// Calls `visit` with each line of a log. False if there is no such file. Throws as open_regular does.
bool for_each_log_line(const std::string& path, Links links, const std::function<void(std::string_view)>& visit);

}  // namespace attend
