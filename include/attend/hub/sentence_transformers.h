#pragma once

#include <string>

#include "attend/models/text_pooling.h"

namespace attend {

/// A folder in the format of sentence-transformers.
struct SentenceFolder {
  std::string model;          ///< folder of the model: the same folder, or one inside it
  SentenceSettings settings;  ///< pooling, normalisation and maximum length
  std::string prompt;         ///< the folder's default prompt, put before every text; may be empty
};

/// Whether a folder has a modules.json.
bool is_sentence_folder(const std::string& folder);
/// Reads modules.json and the files it refers to. Throws a FormatError that names the file and the problem, or the
/// unsupported module.
SentenceFolder read_sentence_folder(const std::string& folder);

}  // namespace attend
