#pragma once

#include "attend/text/bleu.h"
#include "attend/text/tokenizer.h"
#include "attend/train/compare.h"

namespace attend {

/// Buckets and thirds of test sentences by their length in tokens, without models yet.
Comparison comparison_of(std::span<const std::string> sources, const Tokenizer& tokenizer, int64_t buckets);
/// How the models are compared on these targets.
BleuOptions comparison_bleu(std::span<const std::string> targets, bool lowercase);
/// Adds a model's BLEU of each bucket, each third and all, from what it wrote.
void add_model(Comparison& comparison, ComparedModel model, std::span<const std::string> hypotheses,
               std::span<const std::string> targets, const BleuOptions& options);

}  // namespace attend
