#pragma once

#include <memory>
#include <span>
#include <vector>

#include "models/paged_decoding.h"

namespace attend {

/// Reads a text with a language model in parts, between which other work may run. However the text is divided, the
/// hidden states have the bits of LanguageModel::hidden(): keys and values are kept in f32.
class TextReader {
 public:
  /// Null if the model reads only whole texts, or if the keys and values of the text need more than `most_bytes` (0: no
  /// limit). Models with keys and values on the CPU read parts.
  static std::unique_ptr<TextReader> create(const Model& model, std::vector<int32_t> ids, int64_t most_bytes);

  int64_t left() const { return std::ssize(ids_) - read_; }  ///< tokens that are not read yet
  /// The hidden states of the next tokens, at most `count`: [tokens, dim].
  Tensor read(int64_t count);

 private:
  TextReader(std::unique_ptr<PagedDecoding> decoding, std::vector<int32_t> ids);

  std::unique_ptr<PagedDecoding> decoding_;
  std::vector<int32_t> ids_;
  int64_t read_ = 0;
};

}  // namespace attend
