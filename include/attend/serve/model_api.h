#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "attend/generate/drafts.h"
#include "attend/models/generation_rules.h"
#include "attend/models/model.h"
#include "attend/models/text_pooling.h"
#include "attend/ops/precision.h"
#include "attend/text/tokenizer.h"

namespace attend {

class ChatTemplate;

/// A model that requests refer to by name.
struct ServedModel {
  std::string name;
  std::shared_ptr<const Model> model;
  std::shared_ptr<const Tokenizer> tokenizer;  ///< null for an image model
  GenerationRules rules{};                     ///< generation settings of the model's folder
  SentenceSettings sentence{};                 ///< pooling of embeddings
  std::string prompt{};                        ///< text put before each text that is embedded
  std::shared_ptr<const ChatTemplate> chat{};  ///< null: the model does not chat
  Precision precision = Precision::f32;        ///< of matrix products
};

struct ModelApiOptions {
  /// Maximum number of tokens in the running requests of a model: prompts, and the most that may be generated.
  int64_t tokens_in_flight = 65536;
  /// Maximum memory for the keys and values of a model in bytes; 0: no limit. On the CPU, for Transformers.
  int64_t cache_bytes = 0;
  std::optional<DType> cache_type{};  ///< of keys and values, f32 or bf16; by default default_cache_type()
  /// Maximum number of prompt tokens that are read between two tokens of other requests, and the seconds that they may
  /// take (0: no limit): longer prompts are read in parts. For Transformers.
  int64_t prompt_tokens = 64;
  double prompt_seconds = 0.08;
  int64_t draft_tokens = kDraftTokens;  ///< maximum number of guesses in a step: see attend/generate/drafts.h
  int64_t most_waiting = 1024;          ///< maximum number of waiting requests of a model; more get status 429
  std::string version{};
};

/// Answers requests to models over HTTP: OpenAI's API, LibreTranslate's, and classification. Each model has a thread of
/// its own, in which the requests to that model run together as one batch. docs/serving.md describes the requests.
class ModelApi {
 public:
  ModelApi(std::vector<ServedModel> models, const ModelApiOptions& options);
  ~ModelApi();
  ModelApi(const ModelApi&) = delete;
  ModelApi& operator=(const ModelApi&) = delete;

  /// Ends all requests and joins the threads.
  void stop();

  struct State;
  State& state() { return *state_; }  ///< for Server

 private:
  std::unique_ptr<State> state_;
};

}  // namespace attend
