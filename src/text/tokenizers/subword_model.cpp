#include "text/tokenizers/subword_model.h"

#include <charconv>

#include "attend/base/error.h"
#include "io/printable.h"
#include "text/tokenizers/bpe.h"
#include "text/tokenizers/unigram.h"
#include "text/tokenizers/wordpiece.h"

namespace attend::text {

std::string model_type(const Json& json) {
  const auto type = field<std::string>(json, "type", "");
  if (!type.empty() || !json.is_object()) return type;
  if (json.contains("merges")) return "BPE";
  if (json.contains("unk_id")) return "Unigram";
  return json.contains("continuing_subword_prefix") ? "WordPiece" : "WordLevel";
}

std::unique_ptr<const SubwordModel> make_model(const Json& json, bool raw_bytes) {
  const std::string type = model_type(json);
  if (type == "BPE") return std::make_unique<Bpe>(json, raw_bytes);
  if (type == "WordPiece") return std::make_unique<WordPiece>(json);
  if (type == "WordLevel") return std::make_unique<WordLevel>(json);
  if (type == "Unigram") return std::make_unique<Unigram>(json);
  throw FormatError("unknown model " + in_quotes(type));
}

Vocabulary read_vocabulary(const Json& json) {
  const Json& list = required(json, "vocab");
  require<FormatError>(list.is_object(), "\"vocab\" must be an object, got ", list.type_name());
  Vocabulary vocabulary;
  for (const auto& [token, id] : list.items()) {
    require<FormatError>(id.is_number_integer(), "the id of ", in_quotes(token), " must be a whole number");
    vocabulary.add(token, id.get<int64_t>());
  }
  return vocabulary;
}

std::vector<int32_t> byte_fallback_ids(const Vocabulary& vocabulary) {
  std::vector<int32_t> ids;
  for (int byte = 0; byte < 256; ++byte) {
    char token[8];
    std::snprintf(token, sizeof token, "<0x%02X>", byte);
    ids.push_back(vocabulary.find(token));
  }
  return ids;
}

int byte_of_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return -1;
  int byte = -1;
  const char* end = token.data() + 5;
  const auto [stop, error] = std::from_chars(token.data() + 3, end, byte, 16);
  return error == std::errc() && stop == end && byte >= 0 ? byte : -1;
}

}  // namespace attend::text
