#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "attend/train/job.h"

// Models of several architectures, trained alike on the same pairs, and how well each translates sentences of each
// length: the comparison by which attention became known (Bahdanau et al. 2014, figure 2).
namespace attend {

/// A setting of a model or of its training that is not the usual one.
struct ComparisonSetting {
  std::string architecture;  ///< empty: all that have it
  std::string name, value;   ///< as a user writes them
};

struct ComparisonJob {
  std::vector<std::string> architectures{"rnn", "rnn-attention", "transformer"};
  std::string preset = "tiny";
  std::vector<ComparisonSetting> settings;
  DatasetOptions data;         ///< pairs; one tokenizer is made and used by all. Lower-case ones: so is BLEU
  std::optional<Corpus> test;  ///< without one, the part held out for validation
  int64_t steps = 3000;        ///< of each model, as many sentences in each step
  int64_t batch_tokens = 4096;
  int64_t buckets = 6;
  int64_t beam = 1;
  int64_t seed = 1;
};

/// Sentences of like length.
struct LengthBucket {
  int64_t shortest = 0, longest = 0;
  double mean = 0;
  std::vector<int64_t> members;  ///< their numbers, ascending
};
/// Cuts sentences into `count` buckets of about equally many, shortest first. All of one length are in one bucket, so
/// there may be fewer buckets. Throws ShapeError for a count below 1.
std::vector<LengthBucket> length_buckets(std::span<const int64_t> lengths, int64_t count);

struct ComparedModel {
  std::string architecture;
  int64_t parameters = 0, steps = 0;
  double seconds = 0;  ///< of training
  double tokens_per_second = 0, validation_loss = 0;
  std::vector<double> bleu;    ///< of each bucket
  std::vector<double> thirds;  ///< of each third
  double bleu_all = 0, chrf_all = 0;
};

struct Comparison {
  std::vector<LengthBucket> buckets;  ///< by the length of the source in tokens
  std::vector<LengthBucket> thirds;   ///< the shortest, the middle and the longest third
  std::vector<ComparedModel> models;
  int64_t sentences = 0;
  bool is_test_given = false;  ///< false: what was held out, which also chose each model's best step
  std::string signature;       ///< of BLEU
};
/// BLEU against length, a line for each model, as SVG.
std::string comparison_chart(const Comparison& comparison);
/// All of it but the members of the buckets, as JSON text.
std::string comparison_json(const Comparison& comparison);

/// Who wants to know. All may be empty.
struct ComparisonObserver {
  /// Before a model is trained: gives the observer of that training.
  std::function<TrainingObserver(const TrainingFolder&)> training;
  std::function<void(const TrainingFolder&, const TrainingOutcome&, const std::string& path)> trained;
  Progress translating;
};

/// A folder with a model folder for each architecture.
class ComparisonFolder {
 public:
  /// Prepares everything. Throws Error if `folder` is there and not empty, unless `overwrite`, by which only what is
  /// written here is replaced.
  static ComparisonFolder create(const ComparisonJob& job, const std::string& folder, bool overwrite,
                                 const Progress& progress = {});
  /// One that was created before.
  static ComparisonFolder open(const std::string& folder);

  /// Trains what is not trained yet, translates the test sentences into ARCHITECTURE.txt, and writes compare.svg and
  /// compare.json. `stop`, once true, ends it with everything saved: then there is no result.
  std::optional<Comparison> run(const ComparisonObserver& observer = {}, const std::atomic<bool>* stop = nullptr);

 private:
  std::string folder_;
  std::vector<std::string> architectures_;
  int64_t buckets_ = 6, beam_ = 1;
  bool is_test_given_ = false, is_lowercase_ = false;
  std::vector<std::string> sources_, targets_;
};

}  // namespace attend
