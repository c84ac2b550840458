#pragma once

#include <memory>
#include <string>

#include "attend/grammar/constraint.h"
#include "attend/serve/model_api.h"
#include "serve/scheduler.h"

namespace attend {

/// A served model with what its requests share.
struct ModelEntry {
  ModelEntry(ServedModel served, const ModelApiOptions& options, ModelMetrics& figures);

  ServedModel own;
  ModelMetrics& metrics;
  Vocabulary vocabulary;                         ///< empty for an encoder
  int64_t created = 0;                           ///< seconds since 1970
  int64_t tokens_in_flight = 0;                  ///< see ModelApiOptions
  int64_t cache_bytes = 0;                       ///< see ModelApiOptions
  std::unique_ptr<ConstraintCache> constraints;  ///< of the tokenizer; null without one
  Scheduler scheduler;

  const Model& model() const { return *own.model; }
  const Tokenizer& tokenizer() const { return *own.tokenizer; }
  bool writes() const { return model().kind() == ModelKind::language || model().kind() == ModelKind::translation; }
  bool is_pair() const { return model().kind() == ModelKind::translation; }
  int64_t context() const { return model().context(); }
};

}  // namespace attend
