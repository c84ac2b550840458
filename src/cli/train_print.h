#pragma once

#include <chrono>
#include <string>

#include "attend/train/job.h"
#include "cli/terminal.h"

namespace attend::cli {

/// Shows the progress of training. On a terminal, one line that is overwritten; elsewhere one line per report, one soon
/// after the first step, and one whenever there has been none for half a minute.
class TrainingPrinter {
 public:
  TrainingPrinter(std::ostream& out, bool quiet);

  ~TrainingPrinter();
  TrainingPrinter(const TrainingPrinter&) = delete;
  TrainingPrinter& operator=(const TrainingPrinter&) = delete;

  void line(const std::string& text);
  Progress progress();
  TrainingObserver observer();
  void start(const TrainingFolder& folder);
  void finish(const TrainingFolder& folder, const TrainingOutcome& outcome, const std::string& path);

 private:
  void status(const std::string& text);  // overwritten by the next status
  void clear();
  std::ostream& out_;
  bool quiet_, live_;
  size_t shown_ = 0;
  std::chrono::steady_clock::time_point told_;  // time of the last line
  bool has_told_ = false;                       // whether a line about training was printed
  std::string phase_;                           // of the preparation
  std::chrono::steady_clock::time_point phase_began_;
  bool phase_told_ = false;
};

/// 1:02:03, 4:05.
std::string clock_time(double seconds);
/// The path quoted for a shell.
std::string shell_word(const std::string& path);
/// 12,345.
std::string grouped(double number);

}  // namespace attend::cli
