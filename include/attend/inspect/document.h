#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "attend/inspect/run.h"

// Files that show a run to others: docs/inspect-format.md describes the JSON.
namespace attend {

/// A model as a page knows it.
struct InspectedModel {
  std::string id = "m0";
  std::string name;
  std::shared_ptr<const Model> model;
  std::shared_ptr<const Tokenizer> tokenizer;  ///< none for a model of pictures
  std::string example;                         ///< a text to begin with, or a picture's name
  std::optional<std::string> example_target;   ///< its translation
  GenerationRules rules{};                     ///< what its folder says beside its tokenizer
  ImagePreparation preparation{};              ///< of a model of pictures
  std::shared_ptr<const Image> example_picture{};
};

/// capture() with the model's own tokenizer and rules, or its own preparation of pictures.
Run capture(const InspectedModel& model, RunOptions options);

/// Chooses an example the tokenizer knows the words of, if there is none yet.
void choose_example(InspectedModel& model);

struct DocumentOptions {
  std::string version;            ///< of this program
  bool packed = false;            ///< numbers as base64 of float32, little-endian, instead of JSON
  int64_t most_values = 1 << 22;  ///< arrays beyond so many numbers are left out, and named in "leftOut"
  std::string training;           ///< JSON of what /api/training says; empty: nothing is known
};
/// The run with everything that can be asked of it, as one JSON object.
std::string inspect_document(const InspectedModel& model, const Run& run, const DocumentOptions& options = {});

/// The page with the document in it: works on its own, offline. Throws FormatError if the page has no place for it.
std::string inspect_page(std::string_view page, std::string_view document);

}  // namespace attend
