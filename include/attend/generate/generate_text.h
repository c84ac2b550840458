#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attend/generate/sampling.h"
#include "attend/models/generation_rules.h"
#include "attend/models/model.h"
#include "attend/text/tokenizer.h"

namespace attend {

struct GenerateOptions {
  std::optional<int64_t> tokens{};  ///< most to write for each prompt; none: see most_tokens
  SamplingOptions sampling;         ///< temperature 0: always the likeliest
  int64_t beam = 1;                 ///< above 1: no draws, but the best that a beam so wide finds
  int64_t copies = 1;               ///< texts for each prompt; the best ones of a beam
  std::vector<std::string> stop{};  ///< a text ends before the first of these it comes to
  bool goes_past_end = false;       ///< the end of a text is no reason to stop
  int64_t batch_rows = 32;          ///< texts written side by side
  bool use_cache = true;            ///< false: read everything again for each word, to compare with
  int64_t first_index = 0;          ///< number of the first prompt: sampling draws by it
  GenerationRules rules{};          ///< what the model's folder says beside its tokenizer
};

/// How many tokens are written at most behind a prompt of so many: what the options say, else the rules' max_new, else
/// 200, or as many less as the rules' max_length leaves. One that the prompt alone reaches says nothing.
int64_t most_tokens(const GenerateOptions& options, int64_t prompt_tokens);

enum class Ending { length, end, stop, callback };

struct GeneratedText {
  int64_t prompt = 0, copy = 0;
  std::string text;            ///< without the prompt
  std::vector<int32_t> ids;    ///< what was written, without the end
  double log_probability = 0;  ///< of the ids, and of the end if it came, under the model itself
  int64_t prompt_tokens = 0;
  Ending ending = Ending::length;
};

/// New text of one of those being written; it may be empty. False ends that text.
struct TextPiece {
  int64_t prompt = 0, copy = 0;
  std::string_view text;
};
using OnText = std::function<bool(const TextPiece&)>;

/// Goes on from each prompt; the callback is called once for each word, and only ever gets whole characters. An empty
/// prompt is the beginning of a new text. When the context is full the last half of it is read again and writing goes
/// on. What is written for a prompt does not depend on the others, nor on threads; its log p may differ in the last
/// digits with the batch and the cache. With a beam the callback gets each text whole, the context is the end of it,
/// and a prompt must be shorter. The result is by prompt, then copy. Throws FormatError if a prompt is not UTF-8 or the
/// tokenizer does not fit the model, ShapeError for options out of range, Error if the model gives no numbers.
std::vector<GeneratedText> generate_text(const LanguageModel& model, const Tokenizer& tokenizer,
                                         std::span<const std::string> prompts, const GenerateOptions& options = {},
                                         const OnText& on_text = {});

/// The text for one prompt, without it.
std::string generate_text(const LanguageModel& model, const Tokenizer& tokenizer, const std::string& prompt,
                          const GenerateOptions& options = {});

}  // namespace attend
