#pragma once

#include <string>

#include "attend/io/json.h"
#include "attend/models/generation_rules.h"
#include "attend/models/model.h"
#include "attend/text/tokenizer.h"

// The tokenizer and generation files of an exported folder.
namespace attend::hub {

/// The model to export. `rules` are those of the Hugging Face folder that the model was loaded from, if any.
struct Written {
  const Model& model;
  const Tokenizer& tokenizer;
  const GenerationRules& rules;
};

/// "bos_token_id", "eos_token_id", "pad_token_id", and for encoder–decoders "decoder_start_token_id".
Json token_ids(const Written& written);
/// generation_config.json, with which transformers' generate() produces the same text as attend.
Json generation_json(const Written& written);
/// Writes tokenizer files for AutoTokenizer into the folder, which encode a text to the ids that the model was trained
/// on.
void save_tokenizer(const Written& written, const std::string& to, const std::string& folder);

}  // namespace attend::hub
