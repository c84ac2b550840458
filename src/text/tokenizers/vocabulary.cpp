#include "text/tokenizers/vocabulary.h"

#include "attend/base/error.h"
#include "io/printable.h"

namespace attend::text {

void Vocabulary::add(std::string_view token, int64_t id) {
  require<FormatError>(id >= 0 && id < kMostTokens, "the id of ", in_quotes(token), " must be from 0 to ",
                       kMostTokens - 1, ", got ", id);
  require<FormatError>(ids_.bytes() + token.size() < 0xffffffffu, "the tokens take more than 4 GiB");
  if (id >= size()) tokens_.resize(static_cast<size_t>(id) + 1);
  ids_.set(token, static_cast<int32_t>(id));
  tokens_[static_cast<size_t>(id)] = token;
}

const std::string& Vocabulary::token(int64_t id) const {
  static const std::string none;
  return id >= 0 && id < size() ? tokens_[static_cast<size_t>(id)] : none;
}

}  // namespace attend::text
