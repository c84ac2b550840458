// A stream of bytes gives the same requests and the same refusal, whatever pieces it arrives in. The first byte of the
// input chooses the size of the pieces.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "serve/http/request_parser.h"

namespace {

void expect(bool ok) {
  if (!ok) std::abort();
}

/// Everything that the parser finds, as text.
std::string parsed(std::string_view bytes, size_t piece) {
  attend::RequestParser parser({.head = 512, .target = 64, .body = 256});
  std::string found;
  for (; !bytes.empty(); bytes.remove_prefix(std::min(piece, bytes.size()))) {
    parser.push(bytes.substr(0, piece));
    while (parser.state() == attend::RequestParser::State::complete) {
      const attend::HttpRequest request = parser.take();
      expect(request.body.size() == request.content_length && request.target.size() <= 64);
      found += request.method + ' ' + request.path + '\n';
      for (const auto& [name, value] : request.query) found += name + '=' + value + '\n';
      for (const attend::HttpHeader& header : request.headers) {
        expect(header.name.find_first_of("\r\n: ") == std::string::npos);
        expect(header.value.find_first_of("\r\n") == std::string::npos);
        found += header.name + ": " + header.value + '\n';
      }
      found += request.body;
    }
    expect(parser.buffered() <= 512 + 256 + piece + 4);
  }
  if (parser.state() == attend::RequestParser::State::refused) found += std::to_string(parser.refusal().status);
  return found;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  // A long head may be refused for its length or, if it arrives at once, for its content.
  const std::string whole = parsed(bytes, 1), pieces = parsed(bytes, 1 + data[0] % 32);
  expect(whole == pieces || whole.ends_with("431") || pieces.ends_with("431"));
  return 0;
}
