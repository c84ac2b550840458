#include "attend/base/error.h"
#include "attend/text/tokenizer.h"
#include "io/printable.h"
#include "text/tokenizers/vocabulary.h"
#include "text/training/trainers.h"
#include "text/unicode.h"

namespace attend {

TokenizerKind tokenizer_kind(std::string_view name) {
  if (name == "char") return TokenizerKind::characters;
  if (name == "word") return TokenizerKind::words;
  if (name == "bpe") return TokenizerKind::bpe;
  if (name == "wordpiece") return TokenizerKind::wordpiece;
  if (name == "sentencepiece") return TokenizerKind::sentencepiece;
  throw Error("tokenizer: expected char, word, bpe, wordpiece or sentencepiece, got " + in_quotes(name));
}

std::shared_ptr<const Tokenizer> train_tokenizer(const LineSource& lines, const TokenizerTraining& options) {
  require<ShapeError>(options.vocabulary > 5 && options.vocabulary <= text::kMostTokens,
                      "tokenizer: expected a vocabulary of 6 to ", text::kMostTokens, " tokens, got ",
                      options.vocabulary);
  require<ShapeError>(options.coverage > 0 && options.coverage <= 1, "tokenizer: expected a coverage in (0, 1], got ",
                      options.coverage);
  int64_t count = 0;
  const LineSource checked = [&]() -> std::optional<std::string> {
    std::optional<std::string> line = lines();
    if (!line) return line;
    ++count;
    text::require_utf8(*line);
    return options.lowercase ? text::lowercased(*line) : std::move(line);
  };
  const auto train = [&] {
    switch (options.kind) {
      case TokenizerKind::characters:
        return text::train_characters(checked, options);
      case TokenizerKind::words:
        return text::train_words(checked, options);
      case TokenizerKind::bpe:
        return text::train_bpe(checked, options);
      case TokenizerKind::wordpiece:
        return text::train_wordpiece(checked, options);
      case TokenizerKind::sentencepiece:
        return text::train_sentencepiece(checked, options);
    }
    throw ShapeError("tokenizer: unknown kind");
  };
  auto trained = train();
  require<Error>(count > 0, "tokenizer: the corpus is empty");
  return trained;
}

}  // namespace attend
