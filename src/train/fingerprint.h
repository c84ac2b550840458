#pragma once

#include <cstdint>
#include <string>
#include <string_view>

// What the ids of a training folder were made from: its token caches carry it, so that ids of another text or tokenizer
// are never trained on.
namespace attend {

/// A 64-bit sum of texts (FNV-1a), in the order they are added. It finds mistakes; it is no proof against malice.
class TextSum {
 public:
  void add(std::string_view text);
  std::string hex() const;

 private:
  uint64_t sum_ = 0xcbf29ce484222325;
};

/// The sum of the files in a folder that Tokenizer::save writes.
std::string tokenizer_sum(const std::string& folder);

/// The fingerprint of a cache of this text, in ids of this tokenizer. An empty text sum stands for a folder of version
/// 0.1, whose caches do not say what they were made from.
std::string cache_fingerprint(const std::string& tokenizer, const std::string& text);

}  // namespace attend
