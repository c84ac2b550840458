#include "text/sentencepiece/sentencepiece_tokenizer.h"

#include <algorithm>
#include <charconv>

#include "attend/base/error.h"
#include "io/atomic_file.h"
#include "io/printable.h"
#include "text/unicode.h"

namespace attend::text {
namespace {

using Type = SentencePieceProto::Type;

constexpr int64_t kMostExtraIds = 10'000;

bool is_t5(const TokenizerConfig& files) {
  const auto kind = field<std::string>(files.model, "model_type", "");
  const auto name = field<std::string>(files.config, "tokenizer_class", "");
  return name.starts_with("T5Tokenizer") || (name.empty() && (kind == "t5" || kind == "mt5" || kind == "umt5"));
}

/// Whether the tokenizer class implies that a text begins with <s>: Llama's files may not say so.
bool begins_by_default(const TokenizerConfig& files) {
  const auto name = field<std::string>(files.config, "tokenizer_class", "");
  return name.starts_with("Llama") || name.starts_with("Gemma") || name.starts_with("CodeLlama");
}

/// Throws FormatError for tokenizer classes that reserve ids before the model's pieces or put their own tokens there.
void refuse_renumbered(const TokenizerConfig& files) {
  const auto by_class = field<std::string>(files.config, "tokenizer_class", "");
  const auto by_model = field<std::string>(files.model, "model_type", "");
  const std::string name = by_class.empty() ? by_model : by_class;
  for (const char* start : {"XLMRoberta", "xlm-roberta", "Camembert", "camembert", "MBart", "mbart", "Pegasus",
                            "pegasus", "BigBirdPegasus", "Barthez", "Nllb"}) {
    require<FormatError>(
        !name.starts_with(start), name,
        ": this tokenizer class numbers its pieces differently from this file; create a tokenizer.json "
        "with transformers: AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)");
  }
}

/// Number of <extra_id_…> tokens. T5 has 100 of them, but only the model's vocabulary size shows it.
int64_t count_extra_ids(const TokenizerConfig& files, int64_t pieces) {
  constexpr int64_t kUsual = 100;
  const bool has_room = field<int64_t>(files.model, "vocab_size", 0) >= pieces + kUsual;
  const auto count = field<int64_t>(files.config, "extra_ids", is_t5(files) && has_room ? kUsual : 0);
  require<FormatError>(count >= 0 && count <= kMostExtraIds, "extra_ids must be from 0 to ", kMostExtraIds, ", got ",
                       count);
  return count;
}

}  // namespace

SentencePieceTokenizer::SentencePieceTokenizer(std::string source, const TokenizerConfig& files)
    : source_(std::move(source)),
      config_(files.config),
      model_(source_),
      tokens_(model_.vocabulary()),
      lowercase_(field(files.config, "do_lower_case", false)) {
  refuse_renumbered(files);
  if (!config_.is_object()) config_ = Json::object();
  add_tokens(files);
  special_ = find_special_tokens(files, [&](const std::string& name) { return tokens_.find(name); });
  if (special_.unknown < 0) special_.unknown = model_.unknown();
  template_ = template_from(files);
  // Writes the inferred settings to the configuration, so that a saved folder behaves the same without other files.
  const auto frames = [&](int32_t id) { return id >= 0 && std::ranges::find(template_, id) != template_.end(); };
  config_["add_bos_token"] = frames(special_.begin);
  config_["add_eos_token"] = frames(special_.end);
}

void SentencePieceTokenizer::add_token(AddedToken token) {
  tokens_.add(token.content, token.id);
  if (token.special) added_special_.insert(token.id);
  finder_.add(token, token.content);
}

void SentencePieceTokenizer::add_tokens(const TokenizerConfig& files) {
  const int64_t pieces = tokens_.size(), extra = count_extra_ids(files, pieces);
  for (int64_t i = 0; i < extra; ++i) {
    const std::string content = "<extra_id_" + std::to_string(i) + ">";
    if (tokens_.find(content) != kNone) continue;
    add_token({.content = content, .id = static_cast<int32_t>(pieces + extra - 1 - i), .special = true});
  }
  if (extra > 0) config_["extra_ids"] = extra;
  if (!files.config.is_object() || !files.config.contains("added_tokens_decoder")) return;
  for (const auto& [key, json] : files.config["added_tokens_decoder"].items()) {
    int64_t id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    const bool fits = error == std::errc() && end == key.data() + key.size() && id >= 0 && id < kMostTokens;
    require<FormatError>(fits, "added_tokens_decoder: expected an id, got ", in_quotes(key));
    const std::string content = required_string(json, "content");
    require<FormatError>(content.size() <= 4096, "the added token ", in_quotes(content), " is too long");
    const int32_t known = tokens_.find(content);
    add_token({.content = content,
               .id = known == kNone ? static_cast<int32_t>(id) : known,
               .single_word = field(json, "single_word", false),
               .lstrip = field(json, "lstrip", false),
               .rstrip = field(json, "rstrip", false),
               .special = field(json, "special", false)});
  }
}

TextTemplate SentencePieceTokenizer::template_from(const TokenizerConfig& files) const {
  const bool begin = field(files.config, "add_bos_token", begins_by_default(files));
  const bool end = field(files.config, "add_eos_token", is_t5(files));
  TextTemplate result{kNone};
  if (begin && special_.begin >= 0) result.insert(result.begin(), special_.begin);
  if (end && special_.end >= 0) result.push_back(special_.end);
  return result;
}

std::vector<int32_t> SentencePieceTokenizer::encode(std::string_view text, bool add_special) const {
  require_utf8(text);
  std::vector<int32_t> ids;
  finder_.split(text, [&](TokenFinder::Part part) {
    if (part.id != kNone) return ids.push_back(part.id);
    const std::string lower = lowercase_ ? lowercased(part.text) : "";
    model_.encode(lowercase_ ? lower : part.text, [&](std::string_view, int32_t id) { ids.push_back(id); });
  });
  return add_special ? fill(template_, ids) : ids;
}

std::string SentencePieceTokenizer::decode(std::span<const int32_t> ids, bool keep_special) const {
  std::vector<std::string> pieces;
  for (const int32_t id : ids) {
    const bool in_model = id >= 0 && id < model_.vocabulary().size();
    const bool special = added_special_.contains(id) || (in_model && model_.type(id) == Type::control);
    if (special && !keep_special) continue;
    const bool unknown = id == model_.unknown();
    pieces.push_back(unknown ? model_.proto().unknown_surface : tokens_.token(id));
  }
  return repair_utf8(model_.decode(pieces)).text;
}

std::string SentencePieceTokenizer::token(int32_t id) const {
  require<ShapeError>(id >= 0 && id < size(), "tokenizer: expected an id from 0 to ", size() - 1, ", got ", id);
  return tokens_.token(id);
}

std::optional<int32_t> SentencePieceTokenizer::find(std::string_view token) const {
  const int32_t id = tokens_.find(token);
  return id == kNone ? std::nullopt : std::optional(id);
}

void SentencePieceTokenizer::save(const std::string& folder) const {
  const auto write = [&](const char* name, const std::string& content) {
    AtomicFile file(folder + "/" + name);
    file.write(content.data(), content.size());
    file.commit();
  };
  write("tokenizer_config.json", config_.dump(2));
  write("tokenizer.model", source_);
}

}  // namespace attend::text
