#pragma once

#include <functional>
#include <optional>
#include <string>

#include "attend/text/tokenizer.h"
#include "text/tokenizers/json_fields.h"

namespace attend::text {

/// The files beside a tokenizer's main file; null if the file does not exist.
struct TokenizerConfig {
  Json config;         ///< tokenizer_config.json
  Json special_map;    ///< special_tokens_map.json
  Json model;          ///< config.json of the model
  int32_t start = -1;  ///< decoder_start_token_id of generation_config.json or config.json; -1: not set
};
/// Reads the files. Throws FormatError, which names the file, if one is damaged.
TokenizerConfig read_tokenizer_config(const std::string& folder);

/// Returns the id of a token, or -1.
using FindToken = std::function<int32_t(const std::string&)>;
/// Finds the special tokens by the names in the files, or by commonly used names.
SpecialTokens find_special_tokens(const TokenizerConfig& files, const FindToken& find);

/// Reads a whole file. Throws FormatError, which names the file.
std::string read_text_file(const std::string& path);

}  // namespace attend::text
