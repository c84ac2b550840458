#pragma once

#include <cstdint>
#include <string>
#include <string_view>

// Fingerprints of text and tokenizer. Token caches store them, so that training never uses ids of another text or
// tokenizer.
namespace attend {

/// A 64-bit checksum (FNV-1a) of texts in the order they are added. It detects mistakes, not deliberate forgeries.
class TextSum {
 public:
  void add(std::string_view text);
  std::string hex() const;

 private:
  uint64_t sum_ = 0xcbf29ce484222325;
};

/// The sum of the files in a folder that Tokenizer::save writes.
std::string tokenizer_sum(const std::string& folder);

/// The fingerprint of a cache of this text in ids of this tokenizer. An empty text sum means a folder of version 0.1,
/// whose caches have no fingerprint of their text.
std::string cache_fingerprint(const std::string& tokenizer, const std::string& text);

}  // namespace attend
