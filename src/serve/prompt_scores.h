#pragma once

#include <memory>
#include <vector>

#include "generate/text_reader.h"
#include "serve/answer_shape.h"
#include "serve/model_entry.h"

namespace attend {

/// Computes the log-probabilities of a prompt's tokens in parts. Use it in the scheduler's thread.
class PromptScorer {
 public:
  /// `count`: number of likeliest alternatives of each token.
  PromptScorer(const ModelEntry& model, std::vector<int32_t> prompt, int64_t count);

  /// Reads and scores about `tokens` further tokens. Returns their number.
  int64_t advance(int64_t tokens);
  bool is_done() const { return records_.size() == prompt_.size(); }
  /// The tokens with their log-probabilities and alternatives. The first token has none.
  std::vector<TokenRecord> take() { return std::move(records_); }

 private:
  void read(int64_t tokens);
  void score(int64_t rows);

  const ModelEntry& model_;
  std::vector<int32_t> prompt_;
  int64_t count_;
  std::unique_ptr<TextReader> reader_;  // null: the model reads the prompt as a whole
  Tensor hidden_;                       // [tokens, dim], of the part that is being scored
  int64_t scored_ = 0;                  // rows of hidden_
  std::vector<TokenRecord> records_;
};

}  // namespace attend
