#pragma once

#include <functional>
#include <optional>
#include <string>

#include "attend/text/tokenizer.h"
#include "text/tokenizers/json_fields.h"

namespace attend::text {

/// What stands beside a tokenizer's own file; null where there is no such file.
struct TokenizerConfig {
  Json config;         ///< tokenizer_config.json
  Json special_map;    ///< special_tokens_map.json
  Json model;          ///< config.json of the model
  int32_t start = -1;  ///< decoder_start_token_id of generation_config.json or config.json; -1: none
};
/// Reads them; throws FormatError naming the file if one is damaged.
TokenizerConfig read_tokenizer_config(const std::string& folder);

/// A token's id, or -1.
using FindToken = std::function<int32_t(const std::string&)>;
/// The special tokens by the names that the files give them, else by names in common use.
SpecialTokens find_special_tokens(const TokenizerConfig& files, const FindToken& find);

/// The whole file; throws FormatError naming it.
std::string read_text_file(const std::string& path);

}  // namespace attend::text
