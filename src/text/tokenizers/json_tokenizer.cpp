#include "text/tokenizers/json_tokenizer.h"

#include "attend/base/error.h"
#include "io/atomic_file.h"
#include "text/unicode.h"

namespace attend::text {
namespace {

const Json& part(const Json& json, const char* key) {
  static const Json none;
  const auto found = json.find(key);
  return found == json.end() ? none : *found;
}

}  // namespace

JsonTokenizer::JsonTokenizer(std::string source, const TokenizerConfig& files) : source_(std::move(source)) {
  const Json json = parse_json(source_);
  require<FormatError>(json.is_object(), "expected a JSON object, got ", json.type_name());
  const Json &normalizer = part(json, "normalizer"), &cutting = part(json, "pre_tokenizer");
  for (const char* key : {"normalizer", "pre_tokenizer", "post_processor", "decoder"}) {
    require_few_components(part(json, key));
  }
  const Json& model = required(json, "model");
  const bool raw_bytes = model_type(model) == "BPE" && ends_in_byte_level(cutting);
  normalizer_ = make_normalizer(normalizer);
  pre_tokenizer_ = make_pre_tokenizer(cutting, raw_bytes);
  model_ = make_model(model, raw_bytes);
  const bool splits_special = files.config.is_object() && files.config.contains("split_special_tokens") &&
                              files.config["split_special_tokens"] == true;
  added_ = AddedTokens(part(json, "added_tokens"), model_->vocabulary(), normalizer_, !splits_special);
  template_ = make_template(part(json, "post_processor"));
  pair_template_ = make_pair_template(part(json, "post_processor"));
  decoder_ = make_decoder(part(json, "decoder"));
  tokens_ = model_->vocabulary();
  for (const AddedToken& token : added_.all()) tokens_.add(token.content, token.id);
  for (const int32_t id : template_) {
    require<FormatError>(id < tokens_.size(), "the template adds token id ", id, ", but there are only ",
                         tokens_.size(), " tokens");
  }
  special_ = find_special_tokens(files, [&](const std::string& name) { return tokens_.find(name); });
  if (special_.unknown < 0) special_.unknown = model_->unknown();
  if (files.start >= 0 && !template_.empty()) special_.first = template_.front();  // kNone if the text comes first
  if (pair_template_.empty()) pair_template_ = usual_pair_template(special_);
  for (const PairPart& part : pair_template_) {
    require<FormatError>(part.id < tokens_.size(), "the template adds token id ", part.id, ", but there are only ",
                         tokens_.size(), " tokens");
  }
  if (!files.config.is_null()) config_source_ = files.config.dump(2);
}

void JsonTokenizer::encode_part(Piece piece, TextWork& work, std::vector<int32_t>& ids) const {
  if (pre_tokenizer_) {
    pre_tokenizer_->split(piece, work, [&](Piece word) {
      if (!word.text.empty()) model_->encode(word.text, ids);
    });
  } else {
    model_->encode(piece.text, ids);
  }
}

std::vector<int32_t> JsonTokenizer::encode(std::string_view text, bool add_special) const {
  require_utf8(text);
  TextWork work(text.size());
  std::vector<int32_t> ids;
  ids.reserve(text.size() / 3 + 16);
  added_.in_text().split(text, [&](TokenFinder::Part outer) {
    if (outer.id != kNone) return ids.push_back(outer.id);
    const bool at_start = outer.text.data() == text.data();
    const std::string changed = normalizer_ ? normalizer_(outer.text, work) : "";
    const std::string_view prepared = normalizer_ ? std::string_view(changed) : outer.text;
    added_.in_normalized().split(prepared, [&](TokenFinder::Part inner) {
      if (inner.id != kNone) return ids.push_back(inner.id);
      encode_part({inner.text, at_start && inner.text.data() == prepared.data()}, work, ids);
    });
  });
  return add_special ? fill(template_, ids) : ids;
}

EncodedPair JsonTokenizer::encode_pair(std::string_view a, std::string_view b, int64_t longest) const {
  return fill_pair(pair_template_, encode(a, false), encode(b, false), longest);
}

std::string JsonTokenizer::decode(std::span<const int32_t> ids, bool keep_special) const {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  size_t bytes = 0;
  for (const int32_t id : ids) {
    const bool left_out = !keep_special && added_.is_special(id);
    if (const std::string& token = tokens_.token(id); !left_out && !token.empty()) {
      tokens.push_back(token);
      bytes += token.size();
    }
  }
  if (tokens.empty()) return "";
  TextWork work(bytes);
  decoder_(tokens, work);
  std::string text;
  for (const std::string& token : tokens) text += token;
  return repair_utf8(text).text;
}

std::string JsonTokenizer::token(int32_t id) const {
  require<ShapeError>(id >= 0 && id < size(), "tokenizer: expected an id from 0 to ", size() - 1, ", got ", id);
  return tokens_.token(id);
}

std::optional<int32_t> JsonTokenizer::find(std::string_view token) const {
  const int32_t id = tokens_.find(token);
  return id == kNone ? std::nullopt : std::optional(id);
}

void JsonTokenizer::save(const std::string& folder) const {
  const auto write = [&](const char* name, const std::string& content) {
    AtomicFile file(folder + "/" + name);
    file.write(content.data(), content.size());
    file.commit();
  };
  write("tokenizer.json", source_);
  if (!config_source_.empty()) write("tokenizer_config.json", config_source_);
}

}  // namespace attend::text
