#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace attend {

/// The ids with a meaning of their own; -1 where a vocabulary has none.
struct SpecialTokens {
  int32_t pad = -1;
  int32_t unknown = -1;
  int32_t begin = -1;  ///< first token of a sequence, and what a decoder starts from
  int32_t end = -1;    ///< last token of a sequence, and where generation stops
  int32_t mask = -1;   ///< a word held out, for masked-word training
  int32_t first = -1;  ///< stands before both texts of a pair, as BART's <s>; most models have none
};

/// Two texts as one sequence, for models that compare them.
struct EncodedPair {
  std::vector<int32_t> ids;
  std::vector<int32_t> types;  ///< 0 for what belongs to the first text, 1 for the second
  bool is_cut = false;         ///< ends of texts were left out to fit
};

/// Text into ids and back. Immutable after loading or training: safe to use from many threads.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// With `add_special`, what the tokenizer's own template puts around a text ([CLS] … [SEP], <s> …). Throws
  /// FormatError if the text is not UTF-8.
  virtual std::vector<int32_t> encode(std::string_view text, bool add_special = false) const = 0;
  /// The same for a text in the language that is written, where the two have tokenizers of their own (Marian).
  virtual std::vector<int32_t> encode_target(std::string_view text) const { return encode(text); }
  /// Two texts with what the tokenizer's template puts around and between them ([CLS] a [SEP] b [SEP]; without a
  /// template begin a end b end, where the vocabulary has them). At most `longest` ids: the longer text is cut first.
  /// Throws FormatError if a text is not UTF-8.
  virtual EncodedPair encode_pair(std::string_view a, std::string_view b, int64_t longest) const;
  /// The text of ids. Special tokens are left out unless `keep_special`, and ids out of range always (models may have
  /// more rows than their vocabulary). Pieces that are not whole UTF-8 become U+FFFD.
  virtual std::string decode(std::span<const int32_t> ids, bool keep_special = false) const = 0;

  /// Ids are in [0, size).
  virtual int64_t size() const = 0;
  /// A token as the vocabulary spells it (`Ġthe`, `##ing`, `▁the`); throws ShapeError for an id out of range.
  virtual std::string token(int32_t id) const = 0;
  virtual std::optional<int32_t> find(std::string_view token) const = 0;
  virtual const SpecialTokens& special() const = 0;

  /// Writes the files (tokenizer.json, or tokenizer.model) that load_tokenizer reads back, each atomically.
  virtual void save(const std::string& folder) const = 0;
};

/// Reads a folder (tokenizer.json; or tokenizer.model / spiece.model; or vocab.json with merges.txt, or with Marian's
/// source.spm and target.spm; or vocab.txt; or llama2.c's tok….bin; with tokenizer_config.json, special_tokens_map.json
/// and config.json beside them where there are any), or one such file. Nothing in it is trusted: FormatError.
std::shared_ptr<const Tokenizer> load_tokenizer(const std::string& path);

/// What each kind keeps of a text, decode(encode(text)):
///   characters     every code point it has seen; others become <unk>
///   words          single blanks between words; other blanks, unknown and rare words are lost
///   bpe            everything: unseen characters become bytes (GPT-2's scheme)
///   wordpiece      as words, in pieces; control characters, and characters it has not seen, are lost
///   sentencepiece  everything but U+2581 (▁), by which it spells blanks: it comes back as a blank
enum class TokenizerKind { characters, words, bpe, wordpiece, sentencepiece };
/// Throws Error that lists the kinds for a name that is none of them: "char", "word", "bpe", "wordpiece",
/// "sentencepiece".
TokenizerKind tokenizer_kind(std::string_view name);

struct TokenizerTraining {
  TokenizerKind kind = TokenizerKind::bpe;
  int64_t vocabulary = 8000;  ///< at most this many tokens, special ones included; bpe needs at least 261
  int64_t min_count = 2;      ///< characters, words or merges seen less often are left out (not by sentencepiece)
  bool lowercase = false;     ///< of all text, also when encoding; otherwise nothing is normalised
  double coverage = 0.9995;   ///< of characters, for sentencepiece; the rest falls back to bytes
};

/// Gives the next line of the corpus, or nothing at the end.
using LineSource = std::function<std::optional<std::string>()>;
/// Learns a vocabulary. Ids 0 … 4 are <pad>, <unk>, <s>, </s>, <mask>, and <s> … </s> is what encode puts around a text
/// when asked. The same lines give the same tokenizer. Saved, it is a tokenizer.json (sentencepiece: a tokenizer.model)
/// that Hugging Face's libraries read too. Throws ShapeError for options that cannot be, Error for a corpus that is
/// empty or too small, FormatError for lines that are not UTF-8.
std::shared_ptr<const Tokenizer> train_tokenizer(const LineSource& lines, const TokenizerTraining& options);

}  // namespace attend
