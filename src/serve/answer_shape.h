#pragma once

#include <string>
#include <vector>

#include "attend/grammar/tool_calls.h"
#include "attend/io/json.h"
#include "serve/token_text.h"

namespace attend {

/// A token with its log-probability, for the field "logprobs", and where it looked, for the field "attend".
struct TokenRecord {
  struct Alternative {
    int32_t id = 0;
    double log_probability = 0;
  };
  int32_t id = 0;
  bool has_log_probability = true;  ///< false for the first token of an echoed prompt
  double log_probability = 0;
  std::vector<Alternative> top{};
  size_t offset = 0;  ///< character of the text at which the token begins; only with log-probabilities
  Json look{};        ///< null unless it was requested
};

/// A new part of a text, or a whole text.
struct TextPart {
  int64_t index = 0;  ///< of the text among those of the response
  std::string text{};
  std::vector<TokenRecord> tokens{};
  std::vector<int32_t> ids{};         ///< of the tokens, if they were requested
  std::vector<int32_t> prompt_ids{};  ///< of the prompt, if they were requested; only in the first part
  std::vector<ToolCall> calls{};
  int64_t first_call = 0;        ///< index of the first of these calls among those of the text
  const char* finish = nullptr;  ///< finish_reason of the text; null while it is being generated
};

struct ShapeOptions {
  bool has_logprobs = false, has_look = false, has_ids = false;
};

/// Writes texts as one of OpenAI's APIs does.
class AnswerShape {
 public:
  virtual ~AnswerShape() = default;

  virtual const char* id_prefix() const = 0;
  virtual const char* object(bool is_chunk) const = 0;
  /// An element of "choices": of a chunk of a stream, or of a whole response.
  virtual Json choice(const TextPart& part, bool is_chunk, const ShapeOptions& options) const = 0;
  /// The choice that opens a text of a stream; null: none.
  virtual Json opening(int64_t /*index*/) const { return {}; }
};

/// The values of the field "attend" for the tokens of a part.
Json looks_json(const TextPart& part, const Tokenizer& tokenizer);
/// Adds "token_ids" to a choice and, in the first part of a text, "prompt_token_ids".
void add_ids(Json& choice, const TextPart& part);

}  // namespace attend
