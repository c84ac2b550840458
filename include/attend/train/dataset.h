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

/// The corpus and the tokenizer of a training.
struct DatasetOptions {
  Corpus corpus;
  std::optional<Corpus> validation;  ///< default: a part of the corpus is held out
  double validation_share = 0;       ///< fraction to hold out; 0: 2 % of the examples, 10 % of plain text
  std::string tokenizer = "bpe";     ///< a kind of tokenizer to train, or a file or folder to load
  int64_t vocabulary = 10000;        ///< maximum size of a trained vocabulary
  bool lowercase = false;            ///< train a tokenizer that converts text to lower case
  bool by_line = false;              ///< plain text: each line is a separate document
  int64_t max_length = 0;            ///< maximum tokens per text to classify; 0: no limit
  uint64_t seed = 1;
  std::string prefix;      ///< put before the source of every pair, such as the name of a task
  bool is_framed = false;  ///< plain text starts with the begin token of the tokenizer's template, as prompts do
};

/// A corpus as token ids on disk, split into training and validation set.
struct Dataset {
  CorpusKind kind = CorpusKind::text;
  bool by_line = false;
  bool lowercase = false;  ///< the tokenizer converts text to lower case
  std::shared_ptr<const Tokenizer> tokenizer;
  TokenCache training, validation;           ///< the same file if the validation set is held out from the corpus
  std::vector<int64_t> training_examples;    ///< indices in `training`
  std::vector<int64_t> validation_examples;  ///< indices in `validation`
  double split = 1;                 ///< plain text: start of the validation set, as a fraction; 1: in a separate file
  std::vector<std::string> labels;  ///< labels of labelled text, by class number
  std::vector<Example> samples;     ///< validation examples as text, at most 2,000, in order
  int64_t dropped = 0;              ///< number of lines dropped because a side is blank
  std::string prefix;               ///< prefix of the sources in the caches; the samples do not have it
  int32_t begin = -1;               ///< token before each part of plain text; -1: none
};

/// Called with the current activity and its progress: `share` is 0 … 1, or negative if unknown.
using Progress = std::function<void(const std::string& what, double share)>;

/// Trains or loads the tokenizer, saves it in `folder`, and writes the ids to `folder`/cache.
Dataset prepare_dataset(const DatasetOptions& options, const std::string& folder, const Progress& progress = {});
/// Opens the dataset that prepare_dataset wrote to a folder.
Dataset open_dataset(const std::string& folder);

}  // namespace attend
