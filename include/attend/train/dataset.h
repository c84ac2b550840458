#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "attend/data/corpus.h"
#include "attend/data/token_cache.h"
#include "attend/text/tokenizer.h"

namespace attend {

/// Where the text comes from and how it becomes ids.
struct DatasetOptions {
  Corpus corpus;
  std::optional<Corpus> validation;  ///< without one a part of the corpus is held out
  double validation_share = 0;       ///< 0: 2 % of examples, 10 % of running text
  std::string tokenizer = "bpe";     ///< a kind to train, or a file or folder to load
  int64_t vocabulary = 10000;
  bool lowercase = false;
  bool by_line = false;    ///< of plain text: each line is a document, not part of one stream
  int64_t max_length = 0;  ///< cut texts to classify to so many tokens; 0: as they are
  uint64_t seed = 1;
  std::string prefix;      ///< put before the source of every pair: the name of a task
  bool is_framed = false;  ///< plain text begins as the tokenizer's own frame has it, like a downloaded model's prompts
};

/// A corpus as ids on disk, split in two.
struct Dataset {
  CorpusKind kind = CorpusKind::text;
  bool by_line = false;
  bool lowercase = false;  ///< the tokenizer makes text lower-case
  std::shared_ptr<const Tokenizer> tokenizer;
  TokenCache training, validation;           ///< one file where the validation set is a part of the corpus
  std::vector<int64_t> training_examples;    ///< of `training`
  std::vector<int64_t> validation_examples;  ///< of `validation`
  double split = 1;                          ///< of running text: where validation begins; 1: in a file of its own
  std::vector<std::string> labels;           ///< of labelled text, in the order of their numbers
  std::vector<Example> samples;              ///< validation examples as text, at most 2,000, in order
  int64_t dropped = 0;                       ///< lines with a blank side
  std::string prefix;                        ///< that sources have in the caches, but not in the samples
  int32_t begin = -1;                        ///< stands before each part of plain text; -1: nothing does
};

/// Says what is being done and how far it has come: share 0 … 1, negative where nobody knows.
using Progress = std::function<void(const std::string& what, double share)>;

/// Trains or loads the tokenizer, saves it in `folder`, and writes the ids below `folder`/cache.
Dataset prepare_dataset(const DatasetOptions& options, const std::string& folder, const Progress& progress = {});
/// What prepare_dataset left in a folder.
Dataset open_dataset(const std::string& folder);

}  // namespace attend
