#pragma once

#include <array>
#include <memory>
#include <string>

#include "attend/text/tokenizer.h"
#include "text/tokenizers/json_fields.h"
#include "text/tokenizers/vocabulary.h"
#include "text/training/merge_learner.h"

namespace attend::text {

/// The special tokens of every tokenizer trained here. The index is the id.
inline constexpr std::array<const char*, 5> kSpecialNames{"<pad>", "<unk>", "<s>", "</s>", "<mask>"};

/// A vocabulary that contains only the special tokens.
Vocabulary special_vocabulary();

/// A tokenizer.json with the special tokens and the template <s> … </s>; all other parts are unset.
Json trained_document();
/// An entry of "added_tokens".
Json added_special(const std::string& content, int64_t id);
/// {"token": id, …}
Json vocabulary_json(const Vocabulary& vocabulary);
/// ["a b", …], a form that every version of Hugging Face's tokenizers reads. Tokens must not contain spaces.
Json merges_json(const Merges& merges);
/// {"type": type}
Json component(const char* type);
/// A normalizer that converts to lower case, or null if `lowercase` is false.
Json case_normalizer(bool lowercase);
/// A decoder for words that were split at spaces and at each Chinese or Japanese character. It restores the spaces,
/// except between such characters and where English writes none.
Json word_decoder();

/// The tokenizer_config.json of a trained tokenizer.
Json trained_config();
std::shared_ptr<const Tokenizer> finished(const Json& document);

}  // namespace attend::text
