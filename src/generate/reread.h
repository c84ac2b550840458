#pragma once

#include <memory>

#include "attend/models/model.h"

// Decoding without a cache: everything is read again for each word. Slow, and plainly right: what the cached way is
// compared with.
namespace attend {

std::unique_ptr<Decoding> start_rereading(const PairModel& model, const Tensor& source, const Tensor& source_lengths);
std::unique_ptr<Decoding> start_rereading(const LanguageModel& model);

}  // namespace attend
