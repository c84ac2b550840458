#pragma once

#include <string>

#include "attend/models/text_pooling.h"

namespace attend {

/// A folder as sentence-transformers writes it.
struct SentenceFolder {
  std::string model;          ///< the folder of the model itself: the same, or one inside it
  SentenceSettings settings;  ///< pooling, normalisation, length
  std::string prompt;         ///< put before every text, where the folder has a default for that
};

/// Whether a folder has a modules.json.
bool is_sentence_folder(const std::string& folder);
/// Reads modules.json and what it names. Throws FormatError that names the file and what is wrong with it, or a module
/// that is not supported.
SentenceFolder read_sentence_folder(const std::string& folder);

}  // namespace attend
