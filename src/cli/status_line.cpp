#include "cli/status_line.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>

#include "cli/train_print.h"

namespace attend::cli {
namespace {

constexpr auto kPause = std::chrono::milliseconds(200);

/// At least two significant digits.
std::string rate_text(double rate) {
  if (rate >= 10) return grouped(rate);
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", rate);
  return text;
}

}  // namespace

StatusLine::StatusLine() : next_(start_ + kPause), is_shown_(isatty(STDERR_FILENO) == 1) {}

bool StatusLine::is_due() {
  if (!is_shown_ || Clock::now() < next_) return false;
  next_ = Clock::now() + kPause;
  return true;
}

void StatusLine::count(int64_t done, std::optional<int64_t> total, const char* unit) {
  if (!is_due()) return;
  const double rate = static_cast<double>(done) / std::max(seconds(), 1e-3);
  std::string text = grouped(static_cast<double>(done));
  if (total) text += " of " + grouped(static_cast<double>(*total));
  text += std::string(" ") + unit + ", " + rate_text(rate) + " " + unit + "/s";
  if (total && done > 0) text += ", " + clock_time(static_cast<double>(*total - done) / rate) + " left";
  show(text);
}

void StatusLine::share(const std::string& what, double share) {
  if (!is_due()) return;
  if (share < 0) return show(what + " …");
  std::string text = what + " … " + std::to_string(static_cast<int>(100 * share)) + " %";
  if (share > 0) text += ", " + clock_time(seconds() * (1 - share) / share) + " left";
  show(text);
}

void StatusLine::show(const std::string& text) {
  std::cerr << "\r\x1b[K" << text << std::flush;
  is_there_ = true;
}

void StatusLine::clear() {
  if (is_there_) std::cerr << "\r\x1b[K" << std::flush;
  is_there_ = false;
}

}  // namespace attend::cli
