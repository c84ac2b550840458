#include "text/tokenizers/pre_tokenizer.h"

#include <map>
#include <optional>
#include <vector>

#include "attend/base/error.h"
#include "io/printable.h"
#include "text/split.h"
#include "text/tokenizers/byte_level.h"
#include "text/tokenizers/normalizer.h"
#include "text/tokenizers/scanner.h"
#include "text/unicode.h"

namespace attend::text {
namespace {

using Made = std::unique_ptr<const PreTokenizer>;

constexpr const char* kPart = "pre-tokenizer";  // its name in error messages
constexpr size_t kLongestContent = 256;         // bytes of the replacement of a space

void emit(Piece piece, const std::vector<Span>& spans, const PieceSink& sink) {
  for (const auto& [begin, end] : spans) {
    sink({piece.text.substr(begin, end - begin), piece.at_start && begin == 0});
  }
}

class SplitAtPattern final : public PreTokenizer {
 public:
  SplitAtPattern(Pattern pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}

  void split(Piece piece, TextWork& work, const PieceSink& sink) const override {
    auto stretches = stretches_of(pattern_, piece.text, work);
    if (invert_) {
      for (Stretch& stretch : stretches) stretch.is_match = !stretch.is_match;
    }
    emit(piece, pieces_of(stretches, behavior_), sink);
  }

 private:
  Pattern pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

class SplitAtCharacters final : public PreTokenizer {
 public:
  SplitAtCharacters(std::function<bool(char32_t)> is_match, SplitBehavior behavior)
      : is_match_(std::move(is_match)), behavior_(behavior) {}

  void split(Piece piece, TextWork&, const PieceSink& sink) const override {
    emit(piece, pieces_of(stretches_of(is_match_, piece.text), behavior_), sink);
  }

 private:
  std::function<bool(char32_t)> is_match_;
  SplitBehavior behavior_;
};

class SplitByScanner final : public PreTokenizer {
 public:
  explicit SplitByScanner(Scanner scanner) : scanner_(scanner) {}
  void split(Piece piece, TextWork&, const PieceSink& sink) const override { scanner_.scan(piece, sink); }

 private:
  Scanner scanner_;
};

class ByteLevel final : public PreTokenizer {
 public:
  ByteLevel(const Json& json, bool raw_bytes)
      : prefix_space_(field(json, "add_prefix_space", true)),
        use_regex_(field(json, "use_regex", true)),
        raw_bytes_(raw_bytes) {}

  void split(Piece piece, TextWork& work, const PieceSink& sink) const override {
    std::string prefixed;
    if (prefix_space_ && !piece.text.starts_with(' ')) {
      prefixed.assign(1, ' ').append(piece.text);
      piece.text = prefixed;
    }
    work.wrote(kPart, prefixed.size());
    if (raw_bytes_) return cut(piece, sink);
    cut(piece, [&](Piece part) {
      const std::string spelled = spelled_bytes(part.text);
      work.wrote(kPart, spelled.size());
      sink({spelled, part.at_start});
    });
  }

 private:
  void cut(Piece piece, const PieceSink& sink) const {
    if (use_regex_)
      Scanner{}.scan(piece, sink);
    else
      sink(piece);
  }

  bool prefix_space_, use_regex_, raw_bytes_;
};

class Metaspace final : public PreTokenizer {
 public:
  explicit Metaspace(const Json& json)
      : replacement_(field<std::string>(json, "replacement", "▁")), split_(field(json, "split", true)) {
    require<FormatError>(!replacement_.empty(), "the replacement of Metaspace is empty");
    require<FormatError>(replacement_.size() <= kLongestContent, "the replacement of Metaspace has ",
                         replacement_.size(), " bytes, expected at most ", kLongestContent);
    const bool prefix = field(json, "add_prefix_space", true);
    const auto scheme = field<std::string>(json, "prepend_scheme", prefix ? "always" : "never");
    require<FormatError>(scheme == "always" || scheme == "first" || scheme == "never", "unknown prepend_scheme ",
                         in_quotes(scheme));
    always_ = scheme == "always";
    first_ = scheme == "first";
  }

  void split(Piece piece, TextWork& work, const PieceSink& sink) const override {
    std::string text = replaced(piece.text, " ", replacement_);
    if ((always_ || (first_ && piece.at_start)) && !text.starts_with(replacement_)) text.insert(0, replacement_);
    work.wrote(kPart, text.size());
    const Piece changed{text, piece.at_start};
    if (!split_) return sink(changed);
    const auto stretches = stretches_of(Pattern::literal(replacement_), text, work);
    emit(changed, pieces_of(stretches, SplitBehavior::merged_with_next), sink);
  }

 private:
  std::string replacement_;
  bool split_, always_ = false, first_ = false;
};

class Chain final : public PreTokenizer {
 public:
  explicit Chain(std::vector<Made> steps) : steps_(std::move(steps)) {}
  void split(Piece piece, TextWork& work, const PieceSink& sink) const override { from(0, piece, work, sink); }

 private:
  void from(size_t step, Piece piece, TextWork& work, const PieceSink& sink) const {
    if (step == steps_.size()) return sink(piece);
    if (step + 1 == steps_.size()) return steps_[step]->split(piece, work, sink);
    steps_[step]->split(piece, work, [this, step, &work, &sink](Piece part) { from(step + 1, part, work, sink); });
  }

  std::vector<Made> steps_;
};

Made split_at(const Json& json) {
  const Json& pattern = required(json, "pattern");
  const auto behavior = split_behavior(required_string(json, "behavior"));
  const bool invert = field(json, "invert", false);
  if (pattern.is_object() && pattern.contains("Regex")) {
    // Matches of the known patterns are never empty and cover the whole text, so keeping matches by `isolated` and by
    // inverted `removed` gives the same pieces.
    const auto scanner = Scanner::for_pattern(required_string(pattern, "Regex"));
    const bool keeps_matches = behavior == (invert ? SplitBehavior::removed : SplitBehavior::isolated);
    if (scanner && (keeps_matches || behavior == SplitBehavior::isolated)) {
      return std::make_unique<SplitByScanner>(*scanner);
    }
  }
  return std::make_unique<SplitAtPattern>(make_pattern(pattern), behavior, invert);
}

Made bert() {
  std::vector<Made> steps;
  steps.push_back(std::make_unique<SplitAtCharacters>(is_space, SplitBehavior::removed));
  steps.push_back(std::make_unique<SplitAtCharacters>(is_punctuation, SplitBehavior::isolated));
  return std::make_unique<Chain>(std::move(steps));
}

Made chain(const Json& json, bool raw_bytes) {
  const Json& list = required(json, "pretokenizers");
  std::vector<Made> steps;
  for (size_t i = 0; i < list.size(); ++i) {
    if (auto step = make_pre_tokenizer(list.at(i), raw_bytes && i + 1 == list.size())) steps.push_back(std::move(step));
  }
  return std::make_unique<Chain>(std::move(steps));
}

Made at_delimiter(const Json& json) {
  return std::make_unique<SplitAtPattern>(Pattern::literal(required_string(json, "delimiter")), SplitBehavior::removed,
                                          false);
}

using Maker = std::function<Made(const Json&)>;
const std::map<std::string, Maker>& makers() {
  static const auto characters = [](bool (*is_match)(char32_t), SplitBehavior behavior) {
    return std::make_unique<SplitAtCharacters>(is_match, behavior);
  };
  static const std::map<std::string, Maker> table{
      {"Split", split_at},
      {"Metaspace", [](const Json& json) { return std::make_unique<Metaspace>(json); }},
      {"BertPreTokenizer", [](const Json&) { return bert(); }},
      {"Whitespace",
       [](const Json&) {
         return std::make_unique<SplitAtPattern>(Pattern::regex(R"(\w+|[^\w\s]+)"), SplitBehavior::removed, true);
       }},
      {"WhitespaceSplit", [](const Json&) { return characters(is_space, SplitBehavior::removed); }},
      {"Punctuation",
       [](const Json& json) {
         return characters(is_punctuation, split_behavior(field<std::string>(json, "behavior", "Isolated")));
       }},
      {"Digits",
       [](const Json& json) {
         const bool single = field(json, "individual_digits", false);
         return characters(is_number, single ? SplitBehavior::isolated : SplitBehavior::contiguous);
       }},
      {"CharDelimiterSplit", at_delimiter},
  };
  return table;
}

}  // namespace

bool ends_in_byte_level(const Json& json) {
  if (json.is_null()) return false;
  const std::string type = type_of(json);
  if (type != "Sequence") return type == "ByteLevel";
  const Json& list = required(json, "pretokenizers");
  return list.is_array() && !list.empty() && ends_in_byte_level(list.back());
}

std::unique_ptr<const PreTokenizer> make_pre_tokenizer(const Json& json, bool raw_bytes) {
  if (json.is_null()) return nullptr;
  const std::string type = type_of(json);
  if (type == "Sequence") return chain(json, raw_bytes);
  if (type == "ByteLevel") return std::make_unique<ByteLevel>(json, raw_bytes);
  const auto maker = makers().find(type);
  require<FormatError>(maker != makers().end(), "unknown pre-tokenizer ", in_quotes(type));
  return maker->second(json);
}

}  // namespace attend::text
