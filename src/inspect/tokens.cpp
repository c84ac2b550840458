#include "attend/inspect/tokens.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "attend/text/utf8.h"
#include "generate/word_tokens.h"
#include "text/tokenizers/byte_level.h"
#include "text/unicode.h"

namespace attend {
namespace {

constexpr std::string_view kBlankMark = "\u2581", kContinued = "##";

bool is_special(const Tokenizer& tokenizer, int32_t id) {
  const SpecialTokens& special = tokenizer.special();
  for (const int32_t known : {special.pad, special.unknown, special.begin, special.end, special.mask}) {
    if (known == id) return true;
  }
  const std::vector<int32_t> one{id};
  return tokenizer.decode(one).empty() && !tokenizer.decode(one, true).empty() &&
         tokenizer.token(id).find(kBlankMark) == std::string::npos;
}

std::optional<unsigned> hex_digit(char c) {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  if (c >= 'A' && c <= 'F') return static_cast<unsigned>(c - 'A' + 10);
  return std::nullopt;
}

/// The byte of a SentencePiece byte token such as <0xE4>.
std::optional<unsigned char> byte_piece(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  const auto high = hex_digit(token[3]), low = hex_digit(token[4]);
  if (!high || !low) return std::nullopt;
  return static_cast<unsigned char>(*high * 16 + *low);
}

/// Whether the token is a WordPiece continuation such as ##ing. In other vocabularies ## are two characters of the
/// text: decoding the token twice repeats them.
bool is_continuation(const Tokenizer& tokenizer, int32_t id, const std::string& token) {
  return token.starts_with(kContinued) && token.size() > kContinued.size() &&
         !tokenizer.decode(std::vector{id, id}, true).ends_with(token);
}

/// The bytes of a byte-level token. Empty for other vocabularies, where Ã© may be a token of its own.
std::optional<std::string> byte_level_bytes(const Tokenizer& tokenizer, int32_t id, const std::string& token) {
  auto bytes = text::bytes_of_spelling(token);
  if (!bytes || tokenizer.decode(std::vector{id}, true) != repair_utf8(*bytes).text) return std::nullopt;
  return bytes;
}

/// A token and the bytes of text it represents.
struct Surface {
  ShownToken token;
  std::string bytes;  // without a leading space; empty for special tokens
};

std::string hexadecimal(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    out += {kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return out;
}

/// Sets the token's text. A leading space becomes `space = true`, unless the text is a single space.
void set_text(Surface& surface, std::string bytes) {
  if (bytes.size() > 1 && bytes[0] == ' ') {
    surface.token.space = true;
    bytes.erase(0, 1);
  }
  surface.bytes = bytes;
  const bool whole = is_utf8(bytes);
  surface.token.kind = whole ? TokenKind::text : TokenKind::byte;
  surface.token.text = whole ? std::move(bytes) : hexadecimal(bytes);
}

Surface surface_of(const Tokenizer& tokenizer, int32_t id) {
  Surface result{.token = {.id = id}, .bytes = {}};
  if (id < 0 || id >= tokenizer.size()) {
    result.token.text.append("#").append(std::to_string(id));
    result.token.kind = TokenKind::special;
    return result;
  }
  const std::string token = tokenizer.token(id);
  if (is_special(tokenizer, id)) {
    result.token.text = token;
    result.token.kind = TokenKind::special;
  } else if (const auto byte = byte_piece(token)) {
    set_text(result, std::string(1, static_cast<char>(*byte)));
  } else if (is_continuation(tokenizer, id, token)) {
    result.token.text = result.bytes = token.substr(kContinued.size());
  } else if (auto bytes = byte_level_bytes(tokenizer, id, token)) {
    set_text(result, std::move(*bytes));
  } else {
    set_text(result, text::replaced(token, kBlankMark, " "));
  }
  return result;
}

/// Finds the byte range of each surface in a text, in order, ignoring the case of ASCII letters.
class Places {
 public:
  Places(const std::string& text, int32_t unknown) : text_(text), lower_(folded(text)), unknown_(unknown) {}

  void find(std::vector<Surface>& surfaces) {
    size_t anchor = 0;       // the first surface without a range
    bool is_behind = false;  // a surface since the anchor stands for text that was not found
    for (size_t i = 0; i < surfaces.size();) {
      const auto [count, bytes] = joined(surfaces, i);
      const auto found = bytes.empty() ? std::nullopt : search(bytes, !is_behind);
      if (!found) {
        // Neither <s> nor the space that SentencePiece adds before a text stands for a part of the text.
        is_behind = is_behind || stands_for_text(surfaces[i]);
      } else {
        is_behind = false;
        fill_gap(surfaces, anchor, i, *found);
        for (size_t n = i; n < i + count; ++n) set(surfaces[n], *found, *found + bytes.size());
        if (count > 1) split_characters(surfaces, i, count, *found);
        cursor_ = *found + bytes.size();
        anchor = i + count;
      }
      i += count;
    }
    fill_gap(surfaces, anchor, surfaces.size(), text_.size());
  }

 private:
  struct Joined {
    size_t count;
    std::string bytes;
  };

  /// A token, or several neighbouring tokens that only together form whole characters.
  static Joined joined(const std::vector<Surface>& surfaces, size_t i) {
    std::string bytes = surfaces[i].bytes;
    size_t count = 1;
    if (surfaces[i].token.kind != TokenKind::byte) return {count, bytes};
    while (!is_utf8(bytes) && i + count < surfaces.size() && !surfaces[i + count].token.space &&
           surfaces[i + count].token.kind != TokenKind::special) {
      bytes += surfaces[i + count++].bytes;
    }
    return is_utf8(bytes) ? Joined{count, bytes} : Joined{1, {}};
  }

  /// Lower-cases ASCII letters only, so that byte offsets stay the same.
  static std::string folded(std::string text) {
    for (char& c : text) {
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    }
    return text;
  }

  /// The next occurrence. If `is_next`, no surface before this one is unplaced, so only blanks may be skipped.
  std::optional<size_t> search(const std::string& bytes, bool is_next) const {
    const std::string wanted = folded(bytes);
    const size_t at = lower_.find(wanted, cursor_);
    if (at == std::string::npos) return std::nullopt;
    if (is_next && !is_blank(std::string_view(text_).substr(cursor_, at - cursor_))) return std::nullopt;
    return at;
  }

  static void set(Surface& surface, size_t begin, size_t end) {
    surface.token.start = static_cast<int64_t>(begin);
    surface.token.end = static_cast<int64_t>(end);
  }

  /// Assigns a range to each surface of a group: the whole characters that its bytes belong to.
  static void split_characters(std::vector<Surface>& surfaces, size_t first, size_t count, size_t begin) {
    std::string all;
    for (size_t n = first; n < first + count; ++n) all += surfaces[n].bytes;
    size_t from = 0;
    for (size_t n = first; n < first + count; ++n) {
      const size_t until = from + surfaces[n].bytes.size();
      size_t low = 0, high = 0;
      for (size_t at = 0; at < all.size();) {
        const size_t next = at + text::utf8_length(all[at]);
        if (at <= from) low = at;
        if (at < until) high = next;
        at = next;
      }
      set(surfaces[n], begin + low, begin + high);
      from = until;
    }
  }

  /// Assigns the text between the cursor and `end`, without outer spaces, to the tokens first … last − 1.
  void fill_gap(std::vector<Surface>& surfaces, size_t first, size_t last, size_t end) {
    size_t begin = cursor_;
    while (begin < end && text_[begin] == ' ') ++begin;
    size_t until = end;
    while (until > begin && text_[until - 1] == ' ') --until;
    for (size_t n = first; n < last; ++n) {
      const bool is_text = stands_for_text(surfaces[n]);
      set(surfaces[n], is_text ? begin : cursor_, is_text ? until : cursor_);
    }
  }

  bool stands_for_text(const Surface& surface) const {
    return surface.token.id == unknown_ || !is_blank(surface.bytes);
  }

  const std::string& text_;
  std::string lower_;
  int32_t unknown_;  // id of the unknown token, which can represent any text
  size_t cursor_ = 0;
};

void number_words(std::vector<ShownToken>& tokens, const std::string& text) {
  const std::vector<WordPlace> words = word_places(text);
  size_t word = 0;
  for (ShownToken& token : tokens) {
    if (token.start == token.end) continue;
    while (word + 1 < words.size() && words[word].end <= static_cast<size_t>(token.start)) ++word;
    const bool inside =
        word < words.size() &&
        static_cast<size_t>(token.start)<words[word].end&& static_cast<size_t>(token.end)> words[word].begin;
    if (inside) token.word = static_cast<int64_t>(word);
  }
}

}  // namespace

ShownToken show_token(const Tokenizer& tokenizer, int32_t id) { return surface_of(tokenizer, id).token; }

std::vector<ShownToken> show_tokens(const Tokenizer& tokenizer, std::span<const int32_t> ids, const std::string& text) {
  std::unordered_map<int32_t, Surface> known;  // long texts repeat their tokens
  std::vector<Surface> surfaces;
  for (const int32_t id : ids) {
    const auto [entry, is_new] = known.try_emplace(id);
    if (is_new) entry->second = surface_of(tokenizer, id);
    surfaces.push_back(entry->second);
  }
  Places(text, tokenizer.special().unknown).find(surfaces);
  std::vector<ShownToken> tokens;
  int64_t covered = 0;  // end of the text covered so far, in bytes
  for (Surface& surface : surfaces) {
    ShownToken& token = surface.token;
    if (token.end > token.start) {  // spaces come from the text: some vocabularies do not contain them
      token.space = token.start > covered;
      covered = token.end;
    }
    tokens.push_back(std::move(token));
  }
  number_words(tokens, text);
  return tokens;
}

ShownToken show_patch(int64_t index, int64_t columns) {
  ShownToken token{.id = static_cast<int32_t>(index), .text = "[CLS]", .kind = TokenKind::special};
  if (index == 0) return token;
  token.text = std::string("r").append(std::to_string((index - 1) / columns + 1));
  token.text.append("c").append(std::to_string((index - 1) % columns + 1));
  token.kind = TokenKind::text;
  return token;
}

}  // namespace attend
