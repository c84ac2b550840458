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

  bool operator==(const WatchedSentence&) const = default;
};

/// The progress of a training, and snapshots of the model's forward pass over one sentence. Thread-safe: one thread
/// trains, others read.
class TrainingFeed {
 public:
  /// The feed of a training in progress with `total` steps. The training loss includes `label_smoothing`; the
  /// validation loss never does.
  TrainingFeed(int64_t total, WatchedSentence sentence, double label_smoothing = 0);
  /// The feed of a finished training, from its training.jsonl; null if there is no such file. Throws FormatError if it
  /// is not a regular file.
  static std::shared_ptr<TrainingFeed> from_log(const std::string& folder);

  void add(const StepReport& report);
  void add(const ValidationReport& report);
  /// Adds a snapshot of the current sentence. Keeps at most 48 snapshots and 256 MiB: removes some of the older ones,
  /// but never the first or the last. The most recently removed snapshots are not listed but can still be read, because
  /// a page may be about to request one. If the run is of another `sentence`, it is dropped: the sentence changed in
  /// the meantime.
  void add_snapshot(int64_t step, Run run, const std::optional<WatchedSentence>& sentence = {});
  void finish();

  bool is_running() const;
  std::string json() const;  ///< the response of /api/training
  /// The snapshot with this id, "t0", "t1", …; null if it does not exist or was removed.
  std::shared_ptr<const Run> snapshot(const std::string& id) const;

  WatchedSentence sentence() const;
  /// Changes the sentence. Snapshots of the former sentence are no longer listed.
  void set_sentence(WatchedSentence sentence);
  /// Whether the sentence has no snapshot yet, so that the next step should be one.
  bool wants_snapshot() const;

  /// Number of the next event. A new listener starts with this event.
  size_t next_event() const;
  /// Waits for the event with this number and returns it as JSON; nullopt if it does not occur within `patience`.
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
  double seconds_left_ = 0, label_smoothing_ = 0;
  WatchedSentence sentence_;
  std::vector<std::string> steps_, validations_;  // as JSON
  std::vector<Snapshot> snapshots_;
  std::deque<Snapshot> leaving_;    // the most recently removed snapshots, which a page may still request
  std::deque<std::string> events_;  // the most recent events
  size_t first_event_ = 0;          // number of events_[0]
};

}  // namespace attend
