#include "text/tokenizers/added_tokens.h"

#include <algorithm>

#include "attend/base/error.h"
#include "io/printable.h"
#include "text/unicode.h"

namespace attend::text {
namespace {

constexpr size_t kLongestToken = 4096;  // bounds the cost of comparing a token at every position of a text
constexpr size_t kMostAdded = 200'000;

char32_t first_code_point(std::string_view text) {
  size_t at = 0;
  return next_code_point(text, at);
}
size_t last_character(std::string_view text) {
  size_t at = text.size() - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0u) == 0x80u) --at;
  return at;
}

size_t without_trailing_blanks(std::string_view text) {
  while (!text.empty() && is_space(first_code_point(text.substr(last_character(text))))) {
    text.remove_suffix(text.size() - last_character(text));
  }
  return text.size();
}
size_t leading_blanks(std::string_view text) {
  size_t end = 0;
  for (size_t at = 0; at < text.size() && is_space(next_code_point(text, at));) end = at;
  return end;
}

bool stands_alone(std::string_view before, std::string_view behind) {
  const bool word_before = !before.empty() && is_word(first_code_point(before.substr(last_character(before))));
  return !word_before && (behind.empty() || !is_word(first_code_point(behind)));
}

AddedToken read_token(const Json& json) {
  AddedToken token;
  token.content = required_string(json, "content");
  require<FormatError>(token.content.size() <= kLongestToken, "the added token ", in_quotes(token.content), " has ",
                       token.content.size(), " bytes, expected at most ", kLongestToken);
  const int64_t id = required_integer(json, "id");
  require<FormatError>(id >= 0 && id < kMostTokens, "the id of the added token ", in_quotes(token.content),
                       " must be from 0 to ", kMostTokens - 1, ", got ", id);
  token.id = static_cast<int32_t>(id);
  token.special = field(json, "special", false);
  token.normalized = field(json, "normalized", !token.special);
  token.single_word = field(json, "single_word", false);
  token.lstrip = field(json, "lstrip", false);
  token.rstrip = field(json, "rstrip", false);
  return token;
}

}  // namespace

void TokenFinder::add(const AddedToken& token, std::string_view content) {
  if (content.empty()) return;
  trie_.add(content, static_cast<int32_t>(tokens_.size()));
  first_bytes_[static_cast<unsigned char>(content[0])] = true;
  tokens_.push_back(token);
}

void TokenFinder::split(std::string_view text, const std::function<void(Part)>& visit) const {
  size_t done = 0;
  const auto emit = [&](size_t end) {
    if (end > done) visit({text.substr(done, end - done)});
  };
  for (size_t at = 0; at < text.size() && !trie_.empty();) {
    if (!first_bytes_[static_cast<unsigned char>(text[at])]) {
      ++at;
      continue;
    }
    const Trie::Match match = trie_.longest_prefix(text.substr(at));
    if (match.length == 0) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[static_cast<size_t>(match.value)];
    size_t begin = at, end = at + match.length;
    at = end;
    if (token.single_word && !stands_alone(text.substr(0, begin), text.substr(end))) continue;
    if (token.lstrip) begin = done + without_trailing_blanks(text.substr(done, begin - done));
    if (token.rstrip) end += leading_blanks(text.substr(end));
    emit(begin);
    visit({text.substr(begin, end - begin), token.id});
    done = at = end;
  }
  emit(text.size());
}

AddedTokens::AddedTokens(const Json& json, const Vocabulary& vocabulary, const Normalizer& normalizer,
                         bool finds_special) {
  if (json.is_null()) return;
  require<FormatError>(json.is_array(), "\"added_tokens\" must be a list, got ", json.type_name());
  require<FormatError>(json.size() <= kMostAdded, "expected at most ", kMostAdded, " added tokens, got ", json.size());
  for (const Json& entry : json) {
    AddedToken token = read_token(entry);
    if (const int32_t known = vocabulary.find(token.content); known != kNone) token.id = known;
    if (token.special) special_.insert(token.id);
    if (token.special && !finds_special) {
      // Special tokens are then inserted only by the program.
    } else if (token.normalized && normalizer) {
      TextWork work(token.content.size());
      const std::string content = normalizer(token.content, work);
      require<FormatError>(content.size() <= kLongestToken, "the normalizer expands the added token ",
                           in_quotes(token.content), " to ", content.size(), " bytes, expected at most ",
                           kLongestToken);
      in_normalized_.add(token, content);
    } else {
      (token.normalized ? in_normalized_ : in_text_).add(token, token.content);
    }
    all_.push_back(std::move(token));
  }
}

}  // namespace attend::text
