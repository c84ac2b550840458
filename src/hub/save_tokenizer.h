#pragma once

#include <string>

#include "attend/io/json.h"
#include "attend/models/generation_rules.h"
#include "attend/models/model.h"
#include "attend/text/tokenizer.h"

// What a folder for transformers says of words, beside the weights.
namespace attend::hub {

/// What is written, for whom: the rules are those of the folder that the model came from, if it began as somebody
/// else's.
struct Written {
  const Model& model;
  const Tokenizer& tokenizer;
  const GenerationRules& rules;
};

/// "bos_token_id", "eos_token_id", "pad_token_id", and for encoder–decoders "decoder_start_token_id".
Json token_ids(const Written& written);
/// generation_config.json: with it transformers' generate() writes the words that ours does.
Json generation_json(const Written& written);
/// Writes tokenizer files into the folder, which AutoTokenizer reads: the ids of a text are then those the model was
/// trained on.
void save_tokenizer(const Written& written, const std::string& to, const std::string& folder);

}  // namespace attend::hub
