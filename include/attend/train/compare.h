#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "attend/train/job.h"

// Comparison of architectures: trains several models on the same pairs and measures their translations by sentence
// length, as in Bahdanau et al. 2014, figure 2.
namespace attend {

/// A model or training setting that differs from the default.
struct ComparisonSetting {
  std::string architecture;  ///< empty: all architectures that have the setting
  std::string name, value;   ///< as on the command line
};

struct ComparisonJob {
  std::vector<std::string> architectures{"rnn", "rnn-attention", "transformer"};
  std::string preset = "tiny";
  std::vector<ComparisonSetting> settings;
  DatasetOptions data;         ///< pairs; all models share one tokenizer. If it is lower-case, so is BLEU
  std::optional<Corpus> test;  ///< test set; default: the validation set
  int64_t steps = 3000;        ///< training steps of each model; all models have the same batches
  int64_t batch_tokens = 4096;
  int64_t buckets = 6;  ///< number of length buckets
  int64_t beam = 1;
  int64_t seed = 1;
};

/// Sentences of similar length.
struct LengthBucket {
  int64_t shortest = 0, longest = 0;  ///< in tokens
  double mean = 0;                    ///< mean length in tokens
  std::vector<int64_t> members;       ///< indices of the sentences, ascending
};
/// Divides sentences into `count` buckets of about equal size, shortest first. All sentences of the same length are in
/// one bucket, so there may be fewer buckets. Throws ShapeError if `count` is below 1.
std::vector<LengthBucket> length_buckets(std::span<const int64_t> lengths, int64_t count);

struct ComparedModel {
  std::string architecture;
  int64_t parameters = 0, steps = 0;
  double seconds = 0;  ///< training time
  double tokens_per_second = 0, validation_loss = 0;
  std::vector<double> bleu;    ///< BLEU of each bucket
  std::vector<double> thirds;  ///< BLEU of each third
  double bleu_all = 0, chrf_all = 0;
};

struct Comparison {
  std::vector<LengthBucket> buckets;  ///< by source length in tokens
  std::vector<LengthBucket> thirds;   ///< the shortest, the middle and the longest third
  std::vector<ComparedModel> models;
  int64_t sentences = 0;
  bool is_test_given = false;  ///< false: tested on the validation set, which also selected each model's best step
  std::string signature;       ///< BLEU signature
};
/// A chart of BLEU by length as SVG, with a line for each model.
std::string comparison_chart(const Comparison& comparison);
/// The comparison as JSON text, without the members of the buckets.
std::string comparison_json(const Comparison& comparison);

/// Callbacks. All may be empty.
struct ComparisonObserver {
  /// Called before a model is trained; returns the observer of that training.
  std::function<TrainingObserver(const TrainingFolder&)> training;
  std::function<void(const TrainingFolder&, const TrainingOutcome&, const std::string& path)> trained;
  Progress translating;
};

/// A comparison in a folder, with a model folder for each architecture.
class ComparisonFolder {
 public:
  /// Creates the folder and prepares the data and the models. Throws Error if `folder` exists and is not empty, unless
  /// `overwrite` is set, or if another process uses it. Overwriting replaces only the files that a comparison writes;
  /// an existing comparison stays as it is until the first model is ready.
  static ComparisonFolder create(const ComparisonJob& job, const std::string& folder, bool overwrite,
                                 const Progress& progress = {});
  /// Opens an existing comparison. Throws Error if another process uses it.
  static ComparisonFolder open(const std::string& folder);

  /// Trains the models that are not trained yet, translates the test sentences to ARCHITECTURE.txt, and writes
  /// compare.svg and compare.json, all on one device. Setting `stop` to true saves everything and ends the comparison;
  /// the result is then nullopt.
  std::optional<Comparison> run(const ComparisonObserver& observer = {}, const std::atomic<bool>* stop = nullptr,
                                Device device = kCpu);

 private:
  std::string folder_;
  std::vector<std::string> architectures_;
  int64_t buckets_ = 6, beam_ = 1;
  bool is_test_given_ = false, is_lowercase_ = false;
  std::vector<std::string> sources_, targets_;
  std::shared_ptr<const FolderLock> lock_;
};

}  // namespace attend
