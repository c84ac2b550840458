#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace attend::cli {

/// Progress of a command: one line on standard error that is overwritten and finally erased. Shows nothing if standard
/// error is not a terminal.
class StatusLine {
 public:
  StatusLine();
  ~StatusLine() { clear(); }
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  bool is_shown() const { return is_shown_; }
  /// `1,024 of 5,000 lines, 35 lines/s, 1:53 left`; without a total, `1,024 lines, 35 lines/s`.
  void count(int64_t done, std::optional<int64_t> total, const char* unit = "lines");
  /// `Reading … 45 %, 0:12 left`; a negative share means unknown.
  void share(const std::string& what, double share);
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  bool is_due();
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  void show(const std::string& text);

  Clock::time_point start_ = Clock::now(), next_;
  bool is_shown_;
  bool is_there_ = false;
};

}  // namespace attend::cli
