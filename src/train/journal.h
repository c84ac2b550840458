#pragma once

#include <string>
#include <vector>

#include "attend/train/trainer.h"

namespace attend {

/// training.jsonl, with one line per report, and loss.svg, the curve drawn from it.
class Journal {
 public:
  explicit Journal(const std::string& folder) : folder_(folder) {}

  void add(const StepReport& report);
  void add(const ValidationReport& report);
  void add(const TrainingOutcome& outcome);
  /// Drops the lines of later steps, which a resumed run will write again.
  void forget_after(int64_t step);
  void draw() const;

 private:
  std::string path() const { return folder_ + "/training.jsonl"; }
  void append(const std::string& line) const;
  std::string folder_;
};

}  // namespace attend
