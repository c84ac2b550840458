#include "grammar/token_bytes.h"

#include <array>
#include <optional>

#include "attend/text/utf8.h"
#include "text/tokenizers/byte_level.h"

namespace attend::grammar {
namespace {

constexpr std::string_view kBroken = "\uFFFD";

/// Whether the vocabulary spells bytes as GPT-2 does.
bool spells_bytes(const Tokenizer& tokenizer) {
  const std::optional<int32_t> blank = tokenizer.find(text::byte_spelling(' '));
  return blank && tokenizer.decode(std::array{*blank}) == " ";
}

/// The byte of a token such as <0x0A>.
std::optional<char> byte_of(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  int value = 0;
  for (const char c : token.substr(3, 2)) {
    const bool is_digit = c >= '0' && c <= '9', is_letter = c >= 'A' && c <= 'F';
    if (!is_digit && !is_letter) return std::nullopt;
    value = value * 16 + (is_digit ? c - '0' : c - 'A' + 10);
  }
  return static_cast<char>(value);
}

bool is_letter_or_digit(std::string_view text) {
  return text.size() == 1 && ((text[0] >= 'a' && text[0] <= 'z') || (text[0] >= '0' && text[0] <= '9'));
}

/// Whether a text is one visible character.
bool is_visible(std::string_view text) {
  if (text.size() == 1) return text[0] > ' ' && text[0] < 0x7F;
  const std::u32string codes = is_utf8(text) ? code_points(text) : std::u32string();
  return codes.size() == 1 && codes[0] >= 0xA1 && text != kBroken;
}

/// Tokens after which others are decoded: two with visible text, letters or digits if there are any.
class Neighbours {
 public:
  explicit Neighbours(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {
    for (const auto& fits : {is_letter_or_digit, is_visible}) {
      for (int32_t id = 0; id < tokenizer.size() && known_.size() < 2; ++id) {
        const std::string text = tokenizer.decode(std::array{id});
        if (fits(text)) known_.push_back({id, text});
      }
      if (!known_.empty()) break;
    }
  }

  /// The text that a token adds after both neighbours; empty if it differs.
  std::string added(int32_t id) const {
    std::string result;
    for (const auto& [before, text] : known_) {
      const std::string both = tokenizer_.decode(std::array{before, id});
      if (!both.starts_with(text)) return "";
      const std::string own = both.substr(text.size());
      if (&before != &known_.front().id && own != result) return "";
      result = own;
    }
    return result;
  }

 private:
  struct Known {
    int32_t id;
    std::string text;
  };
  const Tokenizer& tokenizer_;
  std::vector<Known> known_;
};

}  // namespace

std::vector<std::string> token_bytes(const Tokenizer& tokenizer) {
  std::vector<std::string> result(static_cast<size_t>(tokenizer.size()));
  const bool is_byte_level = spells_bytes(tokenizer);
  const Neighbours neighbours(tokenizer);
  for (int32_t id = 0; id < tokenizer.size(); ++id) {
    std::string& own = result[static_cast<size_t>(id)];
    const std::string token = tokenizer.token(id);
    const std::string text = is_byte_level ? tokenizer.decode(std::array{id}) : neighbours.added(id);
    if (text.empty()) continue;  // special
    own = text;
    if (is_byte_level) {
      if (auto bytes = text::bytes_of_spelling(token)) own = std::move(*bytes);
    } else if (const std::optional<char> byte = byte_of(token)) {
      const bool is_decoded = text == kBroken || text == std::string(1, *byte);
      if (is_decoded) own.assign(1, *byte);
    } else if (text.find(kBroken) != std::string::npos && token.find(kBroken) == std::string::npos) {
      own.clear();  // a part of a character that cannot be told
    }
  }
  return result;
}

}  // namespace attend::grammar
