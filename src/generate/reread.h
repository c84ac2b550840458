#pragma once

#include <memory>

#include "attend/models/model.h"

// Decoding without a cache, which recomputes all tokens in each step. Slow; a simple reference for the cached decoding.
namespace attend {

std::unique_ptr<Decoding> start_rereading(const PairModel& model, const Tensor& source, const Tensor& source_lengths);
std::unique_ptr<Decoding> start_rereading(const LanguageModel& model);

}  // namespace attend
