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

/// The ids of special tokens; -1 if the vocabulary does not have the token.
struct SpecialTokens {
  int32_t pad = -1;
  int32_t unknown = -1;
  int32_t begin = -1;  ///< first token of a sequence, and start token of a decoder
  int32_t end = -1;    ///< last token of a sequence, at which generation stops
  int32_t mask = -1;   ///< placeholder in masked language modelling
  int32_t first = -1;  ///< token before the source and before the target of a pair, as BART's <s>; rare
};

/// Two texts encoded as one sequence.
struct EncodedPair {
  std::vector<int32_t> ids;
  std::vector<int32_t> types;  ///< token types: 0 for the first text, 1 for the second
  bool is_cut = false;         ///< a text was truncated
};

/// Converts text to token ids and back. Immutable after loading or training, and therefore thread-safe.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Encodes a text. With `add_special`, adds the special tokens of the tokenizer's template ([CLS] … [SEP], <s> …).
  /// Throws FormatError if the text is not UTF-8.
  virtual std::vector<int32_t> encode(std::string_view text, bool add_special = false) const = 0;
  /// Encodes a text in the target language, which may have its own tokenizer (Marian).
  virtual std::vector<int32_t> encode_target(std::string_view text) const { return encode(text); }
  /// Encodes two texts with the tokenizer's template for pairs ([CLS] a [SEP] b [SEP]). Without a template: begin a end
  /// b end, with those of the special tokens that the vocabulary has. Returns at most `longest` ids; the longer text is
  /// truncated first. Throws FormatError if a text is not UTF-8.
  virtual EncodedPair encode_pair(std::string_view a, std::string_view b, int64_t longest) const;
  /// Decodes ids to text. Ignores special tokens unless `keep_special` is set, and always ignores ids out of range,
  /// because a model may have more rows than the vocabulary. Incomplete UTF-8 becomes U+FFFD.
  virtual std::string decode(std::span<const int32_t> ids, bool keep_special = false) const = 0;

  /// Number of tokens. Ids are in [0, size).
  virtual int64_t size() const = 0;
  /// A token as the vocabulary spells it (`Ġthe`, `##ing`, `▁the`). Throws ShapeError for an id out of range.
  virtual std::string token(int32_t id) const = 0;
  /// The id of a token as the vocabulary spells it; nullopt if there is none.
  virtual std::optional<int32_t> find(std::string_view token) const = 0;
  virtual const SpecialTokens& special() const = 0;

  /// Writes the files (tokenizer.json or tokenizer.model) that load_tokenizer reads. Each file is replaced atomically.
  virtual void save(const std::string& folder) const = 0;
};

/// Loads a tokenizer from a file or a folder. Supported files, in this order: tokenizer.json; tokenizer.model or
/// spiece.model; vocab.json with merges.txt, or with Marian's source.spm and target.spm; vocab.txt; llama2.c's
/// tok….bin. Also reads tokenizer_config.json, special_tokens_map.json and config.json if they exist. The files are
/// untrusted input. Throws FormatError if a file is malformed.
std::shared_ptr<const Tokenizer> load_tokenizer(const std::string& path);

/// The kinds of tokenizers that can be trained. decode(encode(text)) preserves:
///   characters     every code point in the training text; others become <unk>
///   words          known words, separated by single spaces; other white space, unknown and rare words are lost
///   bpe            everything: unseen characters become bytes (GPT-2's scheme)
///   wordpiece      as `words`; control characters and unseen characters are lost
///   sentencepiece  everything except U+2581 (▁), its symbol for spaces, which becomes a space
enum class TokenizerKind { characters, words, bpe, wordpiece, sentencepiece };
/// The kind with the name "char", "word", "bpe", "wordpiece" or "sentencepiece". Throws an Error that lists these names
/// for any other name.
TokenizerKind tokenizer_kind(std::string_view name);

struct TokenizerTraining {
  TokenizerKind kind = TokenizerKind::bpe;
  int64_t vocabulary = 8000;  ///< maximum vocabulary size, including special tokens; bpe needs at least 261
  int64_t min_count = 2;      ///< minimum count of a character, word or merge; ignored by sentencepiece
  bool lowercase = false;     ///< convert text to lower case, also in encode(); there is no other normalisation
  double coverage = 0.9995;   ///< sentencepiece: fraction of characters in the vocabulary; others become bytes
};

/// Returns the next line of the corpus, or nullopt at the end.
using LineSource = std::function<std::optional<std::string>()>;
/// Trains a tokenizer. Ids 0 … 4 are <pad>, <unk>, <s>, </s> and <mask>; encode() with `add_special` adds <s> … </s>.
/// The same lines give the same tokenizer. save() writes a tokenizer.json (sentencepiece: a tokenizer.model) that
/// Hugging Face libraries can read. Throws ShapeError if an option is out of range, Error if the corpus is empty or too
/// small, and FormatError if a line is not UTF-8.
std::shared_ptr<const Tokenizer> train_tokenizer(const LineSource& lines, const TokenizerTraining& options);

}  // namespace attend
