#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "attend/generate/text_stream.h"
#include "serve/answer_shape.h"
#include "serve/generation_settings.h"
#include "serve/http/responder.h"
#include "serve/prompt_scores.h"

namespace attend {

/// The input of a model for one prompt.
struct PreparedPrompt {
  std::vector<int32_t> source{};  ///< of the encoder; empty for a language model
  std::vector<int32_t> prompt{};  ///< of the decoder
  std::string text{};             ///< to echo
  int64_t limit = 0;              ///< maximum number of new tokens

  int64_t read() const { return std::ssize(source.empty() ? prompt : source); }
};

/// Tokenizes a prompt and computes its limit. `ids`, if not empty, is the prompt itself. Throws RequestError if the
/// prompt, the value of `field`, is too long.
PreparedPrompt prepare_prompt(const ModelEntry& model, const std::string& text, std::vector<int32_t> ids,
                              std::optional<int64_t> max_tokens, const std::string& field = "prompt");

/// One generating request: its texts, and the response that is being written.
class GenerationTask : public std::enable_shared_from_this<GenerationTask> {
 public:
  struct Parts {
    std::shared_ptr<ModelEntry> model;
    GenerationSettings settings;
    std::vector<PreparedPrompt> prompts;
    std::unique_ptr<AnswerShape> shape;
    std::string version;  ///< of the server
  };
  GenerationTask(Parts parts, Responder responder);

  /// The work for the scheduler. Throws RequestError if the request is too large.
  Job job();
  /// Sends an error, as the response or at the end of a stream.
  void fail(const RequestError& error);

 private:
  using Clock = std::chrono::steady_clock;
  struct Choice {
    Choice(const ModelEntry& model, const PreparedPrompt& prompt, const GenerationSettings& settings)
        : stream(model.tokenizer(), prompt.prompt), stops(settings.stop) {}
    TextStream stream;
    StopFilter stops;
    std::optional<ToolCallParser> calls{};
    TextPart part{};  // new since the last chunk, or all
    TextOffsets offsets{0};
    int64_t generated = 0;
    bool is_done = false;
    Clock::time_point last{};  // time of the last token
  };

  void start_stream();
  void echo(size_t index, std::vector<TokenRecord> scores);
  Piece score_prompts(int64_t tokens);
  void finish_empty();
  bool take(Choice& choice, const SequenceStep& step);
  void take_best(size_t first, const std::vector<Hypothesis>& best);
  TokenRecord record(const SequenceStep& step) const;
  void note_times(Choice& choice);
  static void add_text(Choice& choice, const std::string& text);
  void flush(Choice& choice);
  void finish(Choice& choice, const char* reason);
  void finish_all();
  void write(const Json& choices, bool has_usage);
  Json envelope(bool is_chunk) const;
  Json usage() const;
  Sequence sequence(const PreparedPrompt& prompt) const;
  void add_sequences(std::vector<Sequence>& sequences, size_t prompt);

  std::shared_ptr<ModelEntry> model_;
  GenerationSettings settings_;
  std::vector<PreparedPrompt> prompts_;
  std::unique_ptr<AnswerShape> shape_;
  Responder responder_;
  ShapeOptions shape_options_;
  std::string id_, version_;
  int64_t created_ = 0;
  bool samples_ = true;
  int64_t rows_ = 1;  // of the batch, for each prompt
  std::vector<std::unique_ptr<Choice>> choices_;
  std::unique_ptr<PromptScorer> scorer_;  // of the prompt `scored_`
  size_t scored_ = 0;                     // prompts
  size_t done_ = 0;
  bool is_gone_ = false, is_over_ = false;
  Clock::time_point start_ = Clock::now();
};

}  // namespace attend
