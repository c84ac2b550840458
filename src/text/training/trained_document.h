#pragma once

#include <array>
#include <memory>
#include <string>

#include "attend/text/tokenizer.h"
#include "text/tokenizers/json_fields.h"
#include "text/tokenizers/vocabulary.h"
#include "text/training/merge_learner.h"

namespace attend::text {

/// The special tokens of every tokenizer trained here, by id.
inline constexpr std::array<const char*, 5> kSpecialNames{"<pad>", "<unk>", "<s>", "</s>", "<mask>"};

/// A vocabulary that begins with them.
Vocabulary special_vocabulary();

/// tokenizer.json with the special tokens, the template <s> … </s> and everything else unset.
Json trained_document();
/// An entry of "added_tokens".
Json added_special(const std::string& content, int64_t id);
/// {"token": id, …}
Json vocabulary_json(const Vocabulary& vocabulary);
/// ["a b", …], which every version of Hugging Face's tokenizers reads; for tokens without blanks.
Json merges_json(const Merges& merges);
/// {"type": type}
Json component(const char* type);
/// The normalizer of text that is only made lower case; null otherwise.
Json case_normalizer(bool lowercase);
/// A decoder for words that were cut apart at blanks and at each Chinese or Japanese character: blanks come back,
/// except where such characters meet or English puts none.
Json word_decoder();

/// tokenizer_config.json for what was trained.
Json trained_config();
std::shared_ptr<const Tokenizer> finished(const Json& document);

}  // namespace attend::text
