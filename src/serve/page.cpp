#include "serve/page.h"

#include <zlib.h>

#include "serve/fields.h"

namespace attend {
namespace {

constexpr const char* kWithout =
    "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>attend</title>"
    "<p>This attend was built without its page: Node was missing, or ATTEND_WEB was OFF. /api/info "
    "answers.</p></html>\n";

/// Scripts and styles are inline, data comes from this server, and everything else is forbidden.
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; "
    "img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

}  // namespace

ApiResponse page_response(const ApiRequest& request, const std::string& packed) {
  if (request.method != "GET" && request.method != "HEAD") throw ApiError(405, "the page is read with GET");
  ApiResponse response{.type = "text/html; charset=utf-8", .body = packed.empty() ? kWithout : packed};
  response.headers["Content-Security-Policy"] = kPolicy;
  if (!packed.empty()) response.headers["Content-Encoding"] = "gzip";
  return response;
}

std::string unpacked(const std::string& packed) {
  z_stream stream{};
  constexpr int kGzip = 16 + MAX_WBITS;
  require<Error>(inflateInit2(&stream, kGzip) == Z_OK, "page: cannot initialise zlib");
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  std::string out;
  int status = Z_OK;
  while (status == Z_OK) {
    const size_t before = out.size();
    out.resize(before + (size_t{1} << 18));
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + before);
    stream.avail_out = static_cast<uInt>(out.size() - before);
    status = inflate(&stream, Z_NO_FLUSH);
    out.resize(out.size() - stream.avail_out);
  }
  inflateEnd(&stream);
  require<FormatError>(status == Z_STREAM_END, "page: expected gzip data");
  return out;
}

}  // namespace attend
