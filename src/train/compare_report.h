#pragma once

#include "attend/text/tokenizer.h"
#include "attend/train/compare.h"

namespace attend {

/// Buckets and thirds of test sentences by their length in tokens, without models yet.
Comparison comparison_of(std::span<const std::string> sources, std::span<const std::string> targets,
                         const Tokenizer& tokenizer, int64_t buckets);
/// Adds a model's BLEU of each bucket, each third and all, from what it wrote.
void add_model(Comparison& comparison, ComparedModel model, std::span<const std::string> hypotheses,
               std::span<const std::string> targets);

}  // namespace attend
