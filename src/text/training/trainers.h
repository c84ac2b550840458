#pragma once

#include <memory>

#include "attend/text/tokenizer.h"

namespace attend::text {

using Trained = std::shared_ptr<const Tokenizer>;

// One function for each kind of train_tokenizer(), which checks the options first.
Trained train_characters(const LineSource& lines, const TokenizerTraining& options);
Trained train_words(const LineSource& lines, const TokenizerTraining& options);
Trained train_bpe(const LineSource& lines, const TokenizerTraining& options);
Trained train_wordpiece(const LineSource& lines, const TokenizerTraining& options);
Trained train_sentencepiece(const LineSource& lines, const TokenizerTraining& options);

}  // namespace attend::text
