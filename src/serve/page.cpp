#include "serve/page.h"

#include <zlib.h>

#include "serve/fields.h"

namespace attend {
namespace {

constexpr const char* kWithout =
    "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>attend</title>"
    "<p>This attend was built without its page: Node was missing, or ATTEND_WEB was OFF. /api/info "
    "answers.</p></html>\n";

constexpr std::string_view kNothing = "default-src 'none'; base-uri 'none'; form-action 'none'";
constexpr std::string_view kMeta = R"(<meta http-equiv="Content-Security-Policy" content=")";

/// The policy that the page states: its own script and style, by their hashes, data from this server, and nothing else.
/// A page without a policy may load and run nothing.
std::string policy_of(const std::string& page) {
  const size_t meta = page.find(kMeta), begin = meta + kMeta.size();
  const std::string_view stated =
      meta == std::string::npos ? kNothing : std::string_view(page).substr(begin, page.find('"', begin) - begin);
  return std::string(stated) + "; frame-ancestors 'none'";  // which a page cannot state
}

}  // namespace

std::string page_policy(const std::string& packed) {
  try {
    return policy_of(packed.empty() ? kWithout : unpacked(packed));
  } catch (const FormatError&) {
    return policy_of({});
  }
}

ApiResponse page_response(const ApiRequest& request, const std::string& packed, const std::string& policy) {
  if (request.method != "GET" && request.method != "HEAD") throw ApiError(405, "the page is read with GET");
  ApiResponse response{.type = "text/html; charset=utf-8", .body = packed.empty() ? kWithout : packed};
  response.headers["Content-Security-Policy"] = policy;
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
