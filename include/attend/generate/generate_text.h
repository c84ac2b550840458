#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attend/generate/drafts.h"
#include "attend/generate/sampling.h"
#include "attend/models/generation_rules.h"
#include "attend/models/model.h"
#include "attend/text/tokenizer.h"

namespace attend {

class Constraint;

struct GenerateOptions {
  std::optional<int64_t> tokens{};      ///< maximum number of new tokens per prompt; default: see most_tokens
  SamplingOptions sampling;             ///< temperature 0: greedy
  int64_t beam = 1;                     ///< beam size; above 1, beam search replaces sampling
  int64_t copies = 1;                   ///< number of texts per prompt; with a beam, the best hypotheses
  std::vector<std::string> stop{};      ///< stop strings: a text ends before the first one that occurs
  bool goes_past_end = false;           ///< continue after an end-of-text token
  int64_t batch_rows = 32;              ///< number of texts generated at the same time
  bool use_cache = true;                ///< false: recompute all tokens in each step, as a reference
  std::optional<DType> cache_type{};    ///< of keys and values, f32 or bf16; by default default_cache_type()
  int64_t draft_tokens = kDraftTokens;  ///< maximum number of guesses in a step: see attend/generate/drafts.h
  int64_t first_index = 0;              ///< index of the first prompt, which determines the random draws
  GenerationRules rules{};              ///< generation settings of the model's folder
  /// Limits the texts to a grammar, until `tokens` or a stop string ends them; see attend/grammar/constraint.h
  std::shared_ptr<const Constraint> constraint{};
};

/// Maximum number of new tokens after a prompt of `prompt_tokens`: the `tokens` option, else the rules' max_new, else
/// 200. In the last case the rules' max_length also applies, unless the prompt alone reaches it.
int64_t most_tokens(const GenerateOptions& options, int64_t prompt_tokens);

enum class Ending { length, end, stop, callback };

struct GeneratedText {
  int64_t prompt = 0, copy = 0;
  std::string text;            ///< without the prompt
  std::vector<int32_t> ids;    ///< the generated tokens, without the end token
  double log_probability = 0;  ///< of the ids, and of the end token if there is one, by the model without rules
  int64_t prompt_tokens = 0;
  Ending ending = Ending::length;
};

/// New text of one of the texts being generated; it may be empty.
struct TextPiece {
  int64_t prompt = 0, copy = 0;
  std::string_view text;
};
/// Called with each new piece of text. Returning false ends this text.
using OnText = std::function<bool(const TextPiece&)>;

/// Continues each prompt. An empty prompt starts a new text. The callback is called once for each token and receives
/// only whole characters. When the context is full, the last half of it is read again and generation continues. The
/// text of a prompt does not depend on the other prompts or on the number of threads; its log-probability may differ in
/// the last digits with the batch and the cache. With beam search, the callback receives each text as a whole, a text
/// ends when the context is full, and a prompt must be shorter than the context. Results are sorted by prompt, then by
/// copy. Throws FormatError if a prompt is not UTF-8 or the tokenizer does not match the model, ShapeError if an option
/// is out of range, and Error if the model computes NaN.
std::vector<GeneratedText> generate_text(const LanguageModel& model, const Tokenizer& tokenizer,
                                         std::span<const std::string> prompts, const GenerateOptions& options = {},
                                         const OnText& on_text = {});

/// generate_text() for prompts given as token ids, such as a rendered chat template. No token is added; a prompt must
/// not be empty.
std::vector<GeneratedText> generate_from_ids(const LanguageModel& model, const Tokenizer& tokenizer,
                                             std::span<const std::vector<int32_t>> prompts,
                                             const GenerateOptions& options = {}, const OnText& on_text = {});

/// The continuation of one prompt, without the prompt.
std::string generate_text(const LanguageModel& model, const Tokenizer& tokenizer, const std::string& prompt,
                          const GenerateOptions& options = {});

}  // namespace attend
