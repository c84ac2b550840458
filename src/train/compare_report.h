#pragma once

#include "attend/text/bleu.h"
#include "attend/text/tokenizer.h"
#include "attend/train/compare.h"

namespace attend {

/// A comparison without models: buckets and thirds of the test sentences by their length in tokens.
Comparison comparison_of(std::span<const std::string> sources, const Tokenizer& tokenizer, int64_t buckets);
/// The BLEU options for these targets.
BleuOptions comparison_bleu(std::span<const std::string> targets, bool lowercase);
/// Adds a model with its BLEU on each bucket, each third and all sentences. `hypotheses` are its translations.
void add_model(Comparison& comparison, ComparedModel model, std::span<const std::string> hypotheses,
               std::span<const std::string> targets, const BleuOptions& options);

}  // namespace attend
