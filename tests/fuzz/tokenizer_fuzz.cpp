// Any bytes either give a tokenizer or throw. Any text is then encoded to ids of its vocabulary, or refused, and any
// ids decode to UTF-8. Input that begins with { is tokenizer.json, a zero byte, and the text; other input is a
// SentencePiece model.
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "attend/base/error.h"
#include "attend/text/utf8.h"
#include "text/sentencepiece/sentencepiece_tokenizer.h"
#include "text/tokenizers/json_tokenizer.h"

namespace {

using attend::Tokenizer;

void expect(bool ok) {
  if (!ok) std::abort();
}

void use(const Tokenizer& tokenizer, std::string_view text) {
  const auto size = tokenizer.size();
  for (const bool special : {false, true}) {
    const std::vector<int32_t> ids = tokenizer.encode(text, special);
    for (const int32_t id : ids) expect(id >= 0 && id < size);
    expect(attend::is_utf8(tokenizer.decode(ids, special)));
  }
  std::vector<int32_t> every{-1};
  for (int32_t id = 0; id < std::min<int64_t>(size, 100); ++id) every.push_back(id);
  expect(attend::is_utf8(tokenizer.decode(every, true)));
}

void use_all(const Tokenizer& tokenizer, std::string_view text) {
  for (const std::string_view sample :
       {text, std::string_view(" the Cat's\t今天 👩‍👩‍👧 e\u0301 １２３ <s>a</s>\n")}) {
    try {
      use(tokenizer, sample);
    } catch (const attend::FormatError& error) {
      expect(std::strchr(error.what(), '\n') == nullptr);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const size_t end = std::min(bytes.find('\0'), bytes.size());
  try {
    if (bytes.starts_with('{'))
      use_all(attend::text::JsonTokenizer(std::string(bytes.substr(0, end)), {}), bytes.substr(end));
    else
      use_all(attend::text::SentencePieceTokenizer(std::string(bytes), {}), "");
  } catch (const attend::FormatError& error) {
    expect(std::strchr(error.what(), '\n') == nullptr);
  } catch (const nlohmann::json::exception&) {  // load_tokenizer reports it with the file's name
  }
  return 0;
}
