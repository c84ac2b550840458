#include "text/tokenizers/llama2c_tokenizer.h"

#include <cmath>
#include <cstdint>
#include <cstring>

#include "attend/base/error.h"
#include "text/sentencepiece/sentencepiece_proto.h"

namespace attend::text {
namespace {

using Type = SentencePieceProto::Type;

constexpr uint32_t kLongestToken = 4096;

/// Reads numbers and bytes in order, never past the end.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}

  bool is_done() const { return rest_.empty(); }
  std::string_view take(size_t size) {
    require<FormatError>(size <= rest_.size(), "not a llama2.c tokenizer: expected ", size, " more bytes, got ",
                         rest_.size());
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }
  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }

 private:
  std::string_view rest_;
};

// The wire format of protocol buffers: https://protobuf.dev/programming-guides/encoding
void add_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}
void add_number(std::string& out, uint64_t field, uint64_t value) {
  add_varint(out, field << 3);
  add_varint(out, value);
}
void add_bytes(std::string& out, uint64_t field, std::string_view bytes) {
  add_varint(out, field << 3 | 2);
  add_varint(out, bytes.size());
  out += bytes;
}

std::string message_of(std::string_view text, float score, Type type) {
  std::string out;
  add_bytes(out, 1, text);
  add_varint(out, 2 << 3 | 5);
  out.append(reinterpret_cast<const char*>(&score), sizeof score);
  add_number(out, 3, static_cast<uint64_t>(type));
  return out;
}

/// The original spelling of a token: the export replaced ▁ by a space and put line breaks around <s> and </s>.
std::string spelt(std::string_view token) {
  std::string result;
  for (const char c : token) c == ' ' ? static_cast<void>(result += "\u2581") : static_cast<void>(result += c);
  return result;
}

bool is_byte(std::string_view token) { return token.size() == 6 && token.starts_with("<0x") && token.ends_with('>'); }

}  // namespace

std::string sentencepiece_from_llama2c(std::string_view bytes) {
  Reader reader(bytes);
  reader.number<uint32_t>();  // the length of the longest token
  std::string out;
  for (int64_t id = 0; !reader.is_done(); ++id) {
    const auto score = reader.number<float>();
    const auto length = reader.number<uint32_t>();
    require<FormatError>(length >= 1 && length <= kLongestToken, "not a llama2.c tokenizer: token ", id, " has ",
                         length, " bytes");
    const std::string_view token = reader.take(length);
    if (id < 3) {
      constexpr const char* kNames[] = {"<unk>", "<s>", "</s>"};
      add_bytes(out, 1, message_of(kNames[id], score, id == 0 ? Type::unknown : Type::control));
    } else {
      add_bytes(out, 1, message_of(spelt(token), score, is_byte(token) ? Type::byte : Type::normal));
    }
  }
  std::string trainer, normalizer;
  add_number(trainer, 3, static_cast<uint64_t>(SentencePieceProto::Algorithm::bpe));
  add_number(trainer, 35, 1);    // byte_fallback: unknown characters become bytes
  add_number(normalizer, 3, 1);  // add_dummy_prefix: a space before the text
  add_number(normalizer, 4, 0);  // remove_extra_whitespaces: keep all spaces
  add_number(normalizer, 5, 1);  // escape_whitespaces: spell spaces as ▁
  add_bytes(out, 2, trainer);
  add_bytes(out, 3, normalizer);
  return out;
}

}  // namespace attend::text
