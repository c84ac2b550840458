#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "attend/inspect/run.h"
#include "attend/train/trainer.h"

namespace attend {

struct WatchedSentence {
  std::string text;
  std::optional<std::string> target;
};

/// How training goes, and what the model made of one sentence on the way. Safe to use from many threads: one trains,
/// others ask.
class TrainingFeed {
 public:
  /// A training in progress, with the steps it will have.
  TrainingFeed(int64_t total, WatchedSentence sentence);
  /// One that has ended, from its training.jsonl; null if there is no such file. Throws FormatError if that is not
  /// a regular file.
  static std::shared_ptr<TrainingFeed> from_log(const std::string& folder);

  void add(const StepReport& report);
  void add(const ValidationReport& report);
  /// Keeps at most 48 snapshots, of at most 256 MiB: older ones are thinned out, the first and last stay. The
  /// last few thinned out are no longer listed, but can still be had: a page may be about to ask for one.
  void add_snapshot(int64_t step, Run run);
  void finish();

  bool is_running() const;
  std::string json() const;  ///< what /api/training answers
  /// A snapshot by its id, "t0", "t1", …; null if it is not there (any more).
  std::shared_ptr<const Run> snapshot(const std::string& id) const;

  WatchedSentence sentence() const;
  void set_sentence(WatchedSentence sentence);

  /// Events are numbered; the first that a new listener gets is the one after `next_event()`.
  size_t next_event() const;
  /// The event of this number as JSON, waiting for it; nothing if it does not come in time.
  std::optional<std::string> event(size_t number, std::chrono::milliseconds patience);

 private:
  TrainingFeed() = default;
  struct Snapshot {
    std::string id;
    int64_t step = 0, bytes = 0;
    std::shared_ptr<const Run> run;
  };
  void announce(std::string json);
  void thin_out();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool running_ = false;
  int64_t total_ = 0, next_id_ = 0;
  double seconds_left_ = 0;
  WatchedSentence sentence_;
  std::vector<std::string> steps_, validations_;  // as JSON
  std::vector<Snapshot> snapshots_;
  std::deque<Snapshot> leaving_;    // the last ones thinned out: a page that was told of one may still ask for it
  std::deque<std::string> events_;  // the last few
  size_t first_event_ = 0;          // number of events_[0]
};

}  // namespace attend
