#include "attend/serve/training_feed.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "attend/io/files.h"
#include "inspect/json.h"
#include "io/json_depth.h"
#include "io/regular_file.h"

namespace attend {
namespace {

constexpr size_t kMostSnapshots = 48, kMostLeaving = 16, kMostEvents = 1024, kMostSteps = 4000;
constexpr int64_t kMostBytes = int64_t{256} << 20;

/// NaN and ∞ become null: JSON has neither.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json step_json(int64_t step, double loss, double lr, double speed) {
  return {{"step", step}, {"loss", number(loss)}, {"lr", number(lr)}, {"tokensPerSecond", number(speed)}};
}

Json validation_json(int64_t step, double loss, std::optional<double> bleu) {
  Json json{{"step", step}, {"loss", number(loss)}, {"perplexity", number(std::exp(loss))}};
  if (bleu) json["bleu"] = number(*bleu);
  return json;
}

Json with_type(const char* type, const Json& json) {
  Json event{{"type", type}};
  event.update(json);
  return event;
}

double number_at(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number() ? found->get<double>() : NAN;
}

/// The label smoothing of a training, from the options that the folder stores; 0 if they cannot be read.
double smoothing_of(const std::string& folder) {
  const std::string path = folder + "/training.json";
  if (!std::filesystem::is_regular_file(path)) return 0;
  const std::string text = read_file(path);
  const Json json = is_shallow_json(text) ? Json::parse_or_null(text) : Json(nullptr);
  const double smoothing = json.is_object() ? number_at(json, "label_smoothing") : 0;
  return std::isfinite(smoothing) ? smoothing : 0;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string out = "[";
  for (const std::string& part : parts) out.append(out.size() > 1 ? "," : "").append(part);
  return out + "]";
}

}  // namespace

TrainingFeed::TrainingFeed(int64_t total, WatchedSentence sentence, double label_smoothing)
    : running_(true), total_(total), label_smoothing_(label_smoothing), sentence_(std::move(sentence)) {}

std::shared_ptr<TrainingFeed> TrainingFeed::from_log(const std::string& folder) {
  std::shared_ptr<TrainingFeed> feed(new TrainingFeed());
  const auto read_line = [&feed](std::string_view line) {
    if (!is_shallow_json(line)) return;
    const Json json = Json::parse_or_null(line);
    if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer()) return;
    const auto step = json["step"].get<int64_t>();
    feed->total_ = std::max(feed->total_, step);
    if (json.contains("loss")) {
      feed->steps_.push_back(json_text(
          step_json(step, number_at(json, "loss"), number_at(json, "lr"), number_at(json, "tokens_per_second"))));
    } else if (json.contains("validation_loss") && !json.contains("done")) {
      std::optional<double> bleu;
      if (json.contains("bleu")) bleu = number_at(json, "bleu");
      feed->validations_.push_back(json_text(validation_json(step, number_at(json, "validation_loss"), bleu)));
    }
  };
  feed->label_smoothing_ = smoothing_of(folder);
  return for_each_log_line(folder + "/training.jsonl", Links::follow, read_line) ? feed : nullptr;
}

void TrainingFeed::add(const StepReport& report) {
  const Json json = step_json(report.step, report.loss, report.lr, report.tokens_per_second);
  Json event = with_type("step", json);
  event["secondsLeft"] = number(report.seconds_left);
  const std::lock_guard lock(mutex_);
  seconds_left_ = report.seconds_left;
  steps_.push_back(json_text(json));
  if (steps_.size() > kMostSteps) {  // keep every other step of a long training
    for (size_t i = 0; i + 1 < steps_.size(); i += 2) steps_[i / 2] = steps_[i + 1];
    steps_.resize(steps_.size() / 2);
  }
  announce(json_text(event));
}

void TrainingFeed::add(const ValidationReport& report) {
  const Json json = validation_json(report.step, report.result.loss, report.result.bleu);
  const std::lock_guard lock(mutex_);
  validations_.push_back(json_text(json));
  announce(json_text(with_type("validation", json)));
}

void TrainingFeed::add_snapshot(int64_t step, Run run, const std::optional<WatchedSentence>& sentence) {
  const int64_t bytes = run.bytes();
  auto kept = std::make_shared<const Run>(std::move(run));
  const std::lock_guard lock(mutex_);
  if (sentence && *sentence != sentence_) return;
  const std::string id = std::string("t").append(std::to_string(next_id_++));
  snapshots_.push_back({id, step, bytes, std::move(kept)});
  thin_out();
  announce(json_text({{"type", "snapshot"}, {"run", id}, {"step", step}}));
}

/// Drops the snapshot whose neighbours are closest in the logarithm of the step. Models change fast at first and slowly
/// later, so this one shows the least.
void TrainingFeed::thin_out() {
  const auto too_much = [&] {
    int64_t bytes = 0;
    for (const Snapshot& snapshot : snapshots_) bytes += snapshot.bytes;
    return snapshots_.size() > kMostSnapshots || bytes > kMostBytes;
  };
  const auto place = [](int64_t step) { return std::log(static_cast<double>(step) + 8); };
  while (snapshots_.size() > 2 && too_much()) {
    size_t least = 1;
    double gap = INFINITY;
    for (size_t i = 1; i + 1 < snapshots_.size(); ++i) {
      const double here = place(snapshots_[i + 1].step) - place(snapshots_[i - 1].step);
      if (here < gap) gap = here, least = i;
    }
    const auto leaves = snapshots_.begin() + static_cast<ptrdiff_t>(least);
    leaving_.push_back(std::move(*leaves));
    snapshots_.erase(leaves);
    if (leaving_.size() > kMostLeaving) leaving_.pop_front();
  }
}

void TrainingFeed::finish() {
  const std::lock_guard lock(mutex_);
  running_ = false;
  seconds_left_ = 0;
  announce(json_text({{"type", "done"}}));
}

bool TrainingFeed::is_running() const {
  const std::lock_guard lock(mutex_);
  return running_;
}

std::string TrainingFeed::json() const {
  const std::lock_guard lock(mutex_);
  Json snapshots = Json::array();
  for (const Snapshot& snapshot : snapshots_) snapshots.push_back({{"run", snapshot.id}, {"step", snapshot.step}});
  return "{\"running\":" + std::string(running_ ? "true" : "false") + ",\"steps\":" + joined(steps_) +
         ",\"validation\":" + joined(validations_) + ",\"total\":" + std::to_string(total_) +
         ",\"secondsLeft\":" + json_text(number(seconds_left_)) + ",\"snapshots\":" + json_text(snapshots) +
         ",\"labelSmoothing\":" + json_text(number(label_smoothing_)) + ",\"text\":" + json_text(sentence_.text) +
         ",\"target\":" + json_text(sentence_.target.value_or("")) + "}";
}

std::shared_ptr<const Run> TrainingFeed::snapshot(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(snapshots_, id, &Snapshot::id);
  if (found != snapshots_.end()) return found->run;
  const auto left = std::ranges::find(leaving_, id, &Snapshot::id);
  return left == leaving_.end() ? nullptr : left->run;
}

WatchedSentence TrainingFeed::sentence() const {
  const std::lock_guard lock(mutex_);
  return sentence_;
}

void TrainingFeed::set_sentence(WatchedSentence sentence) {
  const std::lock_guard lock(mutex_);
  if (sentence_ == sentence) return;
  sentence_ = std::move(sentence);
  for (Snapshot& snapshot : snapshots_) {
    leaving_.push_back(std::move(snapshot));
    if (leaving_.size() > kMostLeaving) leaving_.pop_front();
  }
  snapshots_.clear();
  announce(json_text({{"type", "sentence"}, {"text", sentence_.text}, {"target", sentence_.target.value_or("")}}));
}

bool TrainingFeed::wants_snapshot() const {
  const std::lock_guard lock(mutex_);
  return running_ && snapshots_.empty();
}

/// Call with the lock held.
void TrainingFeed::announce(std::string json) {
  events_.push_back(std::move(json));
  if (events_.size() > kMostEvents) {
    events_.pop_front();
    ++first_event_;
  }
  changed_.notify_all();
}

size_t TrainingFeed::next_event() const {
  const std::lock_guard lock(mutex_);
  return first_event_ + events_.size();
}

std::optional<std::string> TrainingFeed::event(size_t number, std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, patience, [&] { return number < first_event_ + events_.size(); });
  if (number >= first_event_ + events_.size()) return std::nullopt;
  return events_[std::max(number, first_event_) - first_event_];
}

}  // namespace attend
