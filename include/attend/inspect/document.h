#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "attend/inspect/run.h"

// Export of a run as JSON or as a web page. docs/inspect-format.md describes the JSON.
namespace attend {

/// A model on the web page.
struct InspectedModel {
  std::string id = "m0";
  std::string name;
  std::shared_ptr<const Model> model;
  std::shared_ptr<const Tokenizer> tokenizer;  ///< null for an image model
  std::string example;                         ///< example text, or the name of an example image
  std::optional<std::string> example_target;   ///< translation of the example
  GenerationRules rules{};                     ///< generation settings of the model's folder
  ImagePreparation preparation{};              ///< preprocessing of an image model
  std::shared_ptr<const Image> example_picture{};
  std::string served_name{};  ///< name of the model in the server's OpenAI API; empty: not served
  bool has_chat = false;      ///< the model's folder has a chat template
};

/// The beam size by which the page decodes, in every view: the folder's, at most 8, or else 4.
int64_t page_beam(const GenerationRules& rules);

/// capture() with the model's tokenizer and rules, or its image preprocessing. A generated target is decoded with
/// page_beam() unless the options set a beam size.
Run capture(const InspectedModel& model, RunOptions options);

/// If the model has no example, chooses one whose words are in the tokenizer's vocabulary.
void choose_example(InspectedModel& model);

struct DocumentOptions {
  std::string version;            ///< version of this program
  bool packed = false;            ///< arrays as base64 of little-endian float32 instead of JSON numbers
  int64_t most_values = 1 << 22;  ///< maximum total number of array values; arrays beyond it are listed in "leftOut"
  std::string training;           ///< the response of /api/training as JSON; may be empty
};
/// The run with all its arrays as one JSON object.
std::string inspect_document(const InspectedModel& model, const Run& run, const DocumentOptions& options = {});

/// Embeds the document in the web page. The result works offline. Throws FormatError if the page has no placeholder for
/// it.
std::string inspect_page(std::string_view page, std::string_view document);

}  // namespace attend
