#include "train/fingerprint.h"

#include <cstdio>
#include <filesystem>

#include "io/mapped_file.h"

namespace attend {

void TextSum::add(std::string_view text) {
  constexpr uint64_t kPrime = 0x100000001b3;
  for (const char c : text) sum_ = (sum_ ^ static_cast<unsigned char>(c)) * kPrime;
  sum_ = (sum_ ^ 0xff) * kPrime;  // a separator that is not a byte of UTF-8: "a", "bc" differs from "ab", "c"
}

std::string TextSum::hex() const {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(sum_));
  return text;
}

std::string tokenizer_sum(const std::string& folder) {
  TextSum sum;
  for (const std::string name :
       {"tokenizer.json", "tokenizer.model", "source.spm", "target.spm", "vocab.json", "tokenizer_config.json"}) {
    const std::string path = folder + "/" + name;
    std::error_code error;
    if (!std::filesystem::exists(path, error)) continue;
    const MappedFile file = map_file(path);
    sum.add(name);
    sum.add({reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size()});
  }
  return sum.hex();
}

std::string cache_fingerprint(const std::string& tokenizer, const std::string& text) {
  return text.empty() ? "attend" : "tokenizer " + tokenizer + ", text " + text;
}

}  // namespace attend
