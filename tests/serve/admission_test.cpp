// Which requests are refused, with which response, and what every response has.
#include <gtest/gtest.h>

#include <set>

#include "serve/model_api_testing.h"

namespace attend::testing {
namespace {

using Json = nlohmann::json;

/// A server with a page and a model, as attend serve is.
struct ServedPage {
  Api page{{tiny_inspected("gpt")}, {.version = "1", .page = "packed"}};
  ModelApi models{{tiny_served("gpt", "gpt", {{"context", "64"}})}, {}};
  Server server;

  explicit ServedPage(ServerOptions options = {})
      : server(&page, models, ServedModels::with_any_port(std::move(options))) {
    server.start();
  }
  ~ServedPage() {
    server.stop();
    models.stop();
  }
  std::string request(const std::string& line, const std::string& headers, const std::string& body = {}) const {
    std::string text = line + "\r\nConnection: close\r\n" + headers;
    if (line.starts_with("POST")) text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
    return testing::exchange(server.port(), text + "\r\n" + body);
  }
};

std::string message_of(const std::string& answer) {
  const Json body = Json::parse(body_of(answer), nullptr, false);
  if (!body.is_object() || !body.contains("error")) return answer;
  return body["error"].is_object() ? body["error"]["message"].get<std::string>() : body["error"].get<std::string>();
}

std::string header_of(const std::string& answer, const std::string& name) {
  const size_t at = answer.find("\r\n" + name + ": ");
  if (at == std::string::npos || at > answer.find("\r\n\r\n")) return "";
  const size_t begin = at + name.size() + 4;
  return answer.substr(begin, answer.find("\r\n", begin) - begin);
}

constexpr const char* kCompletion = R"({"prompt":"a","max_tokens":2})";
const std::string kComplete = "POST /v1/completions HTTP/1.1";

/// A proxy with TLS passes on the host, and the page's requests have the origin of the proxy.
TEST(Admission, ThePageWorksBehindAProxyWithTls) {
  const ServedPage named({.names = {"api.example.org"}});
  const std::string host = "Host: api.example.org\r\n", same = "Sec-Fetch-Site: same-origin\r\n";
  const std::string origin = "Origin: https://api.example.org\r\n";
  EXPECT_EQ(status_of(named.request("GET / HTTP/1.1", host)), 200);
  EXPECT_EQ(status_of(named.request(kComplete, host + same + origin, kCompletion)), 200);
  EXPECT_EQ(status_of(named.request("POST /api/runs HTTP/1.1", host + same + origin, R"({"model":"m0","text":"a"})")),
            200);
  EXPECT_EQ(status_of(named.request(kComplete, "Host: API.example.org:8443\r\nOrigin: https://API.example.org:8443\r\n",
                                    kCompletion)),
            200);
  EXPECT_EQ(status_of(named.request(kComplete, host + "Origin: http://api.example.org\r\n", kCompletion)), 200);
  EXPECT_EQ(status_of(named.request(kComplete, host + "Origin: https://evil.example\r\n", kCompletion)), 403);
  EXPECT_EQ(status_of(named.request(kComplete, host + "Origin: https://api.example.org:9\r\n", kCompletion)), 403);
  EXPECT_EQ(status_of(named.request(kComplete, "Host: localhost\r\nOrigin: https://localhost\r\n", kCompletion)), 403);
  EXPECT_EQ(status_of(named.request(kComplete, "Host: evil.example\r\nOrigin: https://evil.example\r\n", kCompletion)),
            403);
}

TEST(Admission, RefusalsNameTheRemedy) {
  const ServedPage served;
  EXPECT_EQ(message_of(served.request("GET /v1/models HTTP/1.1", "Host: API.example.org:80\r\n")),
            "the host name 'api.example.org' is not this server's; --server-name of attend serve adds a name");
  const std::string own =
      "if a proxy serves attend's own page, configure the proxy to forward the Host header, and give attend serve the "
      "host with --server-name";
  const std::string origin = "Host: 127.0.0.1\r\nOrigin: https://api.example.org\r\n";
  EXPECT_EQ(message_of(served.request(kComplete, origin, kCompletion)),
            "requests from web pages of 'https://api.example.org' are refused; --cors-origin of attend serve allows an "
            "origin; " +
                own);
  EXPECT_EQ(message_of(served.request("GET /api/info HTTP/1.1", origin)),
            "requests from web pages of 'https://api.example.org' are refused; " + own);
  EXPECT_EQ(message_of(served.request("GET /v1/models HTTP/1.1", "Host: 127.0.0.1\r\nSec-Fetch-Site: cross-site\r\n"))
                .substr(0, 43),
            "requests from other web sites are refused; ");
  EXPECT_EQ(message_of(served.request("GET /v1/models HTTP/1.1", "")), "expected a header Host");
}

/// Probes of load balancers use HTTP/1.0 without a host.
TEST(Admission, OldRequestsNeedNoHost) {
  const ServedPage served;
  EXPECT_EQ(status_of(served.request("GET /health HTTP/1.0", "")), 200);
  EXPECT_EQ(status_of(served.request("GET /health HTTP/1.0", "Origin: http://evil.example\r\n")), 403);
  EXPECT_EQ(status_of(served.request("GET /health HTTP/1.0", "Host: evil.example\r\n")), 403);
  EXPECT_EQ(status_of(served.request("GET /api/info HTTP/1.0", "")), 403);
}

/// The host of a target in absolute form counts, not the header.
TEST(Admission, TargetsMayBeAbsolute) {
  const ServedPage served;
  const std::string host = "Host: localhost\r\n";
  EXPECT_EQ(status_of(served.request("GET http://localhost/health HTTP/1.1", host)), 200);
  EXPECT_EQ(status_of(served.request("GET http://127.0.0.1:80/health HTTP/1.1", "Host: a.example\r\n")), 200);
  EXPECT_EQ(status_of(served.request("GET http://evil.example/health HTTP/1.1", host)), 403);
}

void expect_openai(const std::string& answer, int status, const std::string& message) {
  EXPECT_EQ(status_of(answer), status) << answer.substr(0, 300);
  const Json body = Json::parse(body_of(answer), nullptr, false);
  ASSERT_TRUE(body.is_object() && body.contains("error") && body["error"].is_object()) << answer.substr(0, 300);
  EXPECT_EQ(body["error"]["message"], message);
  EXPECT_EQ(body["error"]["type"], "invalid_request_error");
  EXPECT_TRUE(body["error"].contains("param") && body["error"].contains("code")) << body;
}

TEST(Admission, AllErrorsHaveOpenAisShape) {
  const ServedPage served;
  const int port = served.server.port();
  expect_openai(testing::exchange(port, "nonsense\r\n\r\n"), 400, "the request is malformed");
  expect_openai(testing::exchange(port, "GET /v1/models HTTP/1.1\r\nno colon\r\n\r\n"), 400,
                "the request is malformed");
  expect_openai(testing::exchange(port, "GET /v1/models HTTP/1.1\r\nX: " + std::string(40000, 'a')), 431,
                "the request's head is longer than 32 KiB");
  const Client slow(port), slow_body(port);
  slow.send("GET /v1/models HT");
  slow_body.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{");
  expect_openai(slow.receive(), 408, "the request took too long to arrive");
  expect_openai(slow_body.receive(), 408, "the request took too long to arrive");
}

TEST(Admission, RefusedRequestsAreCounted) {
  const ServedPage served;
  const int port = served.server.port();
  const std::string host = "Host: localhost\r\n";
  served.request("GET /secret/1 HTTP/1.1", host);
  served.request("GET /secret/2 HTTP/1.1", host);
  served.request("PUT /v1/models HTTP/1.1", host + "Content-Length: 0\r\n");
  served.request("GET /v1/models/gpt HTTP/1.1", "Host: evil.example\r\n");
  served.request(kComplete, host + "Content-Type: multipart/form-data; boundary=x\r\n", "--x--");
  testing::exchange(port, "GET /v1/models HTTP/1.1\r\nX: " + std::string(40000, 'a'));
  testing::exchange(port, "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 18000000\r\n\r\n");
  served.request("GET / HTTP/1.1", host);
  served.request("GET /view/heads HTTP/1.1", host);
  served.request("GET /api/info HTTP/1.1", host);
  const std::string text = body_of(served.request("GET /metrics HTTP/1.1", host));
  const auto has = [&](const std::string& path, int status, int count) {
    const std::string line = "attend_requests_total{path=\"" + path + "\",status=\"" + std::to_string(status) + "\"} " +
                             std::to_string(count) + "\n";
    EXPECT_NE(text.find(line), std::string::npos) << line << text.substr(0, 1500);
  };
  has("other", 404, 2);
  has("/v1/models", 405, 1);
  has("/v1/models", 403, 1);
  has("/v1/completions", 415, 1);
  has("other", 431, 1);
  has("/v1/completions", 413, 1);
  has("/", 200, 1);
  has("/view", 200, 1);
  has("/api", 200, 1);
  EXPECT_EQ(text.find("secret"), std::string::npos);
}

TEST(Admission, AResponseNamesItsRequest) {
  const ServedPage served;
  const std::string host = "Host: localhost\r\n";
  std::set<std::string> ids;
  for (const std::string& answer :
       {served.request(kComplete, host, kCompletion), served.request(kComplete, host, kCompletion),
        served.request("GET /nothing HTTP/1.1", host), served.request("GET / HTTP/1.1", host),
        served.request("GET /health HTTP/1.1", "Host: evil.example\r\n"),
        testing::exchange(served.server.port(), "nonsense\r\n\r\n")}) {
    const std::string id = header_of(answer, "x-request-id");
    EXPECT_TRUE(id.starts_with("req_") && id.size() == 36) << answer.substr(0, 300);
    ids.insert(id);
  }
  EXPECT_EQ(ids.size(), 6u);
}

TEST(Admission, A405NamesTheMethods) {
  const ServedPage served;
  const std::string host = "Host: localhost\r\n", none = host + "Content-Length: 0\r\n";
  EXPECT_EQ(header_of(served.request("GET /v1/completions HTTP/1.1", host), "Allow"), "POST");
  EXPECT_EQ(header_of(served.request("PUT /v1/completions HTTP/1.1", none), "Allow"), "POST");
  EXPECT_EQ(header_of(served.request("DELETE /v1/models/gpt HTTP/1.1", none), "Allow"), "GET, HEAD");
  EXPECT_EQ(header_of(served.request("POST /health HTTP/1.1", host), "Allow"), "GET, HEAD");
  EXPECT_EQ(header_of(served.request("PUT / HTTP/1.1", none), "Allow"), "GET, HEAD, POST");
}

TEST(Admission, TheSchemeOfAKeyIsBearerInAnyCase) {
  const ServedPage served({.api_keys = {"secret"}});
  const auto status = [&](const std::string& value) {
    return status_of(served.request("GET /v1/models HTTP/1.1", "Host: localhost\r\nAuthorization: " + value + "\r\n"));
  };
  EXPECT_EQ(status("Bearer secret"), 200);
  EXPECT_EQ(status("bearer secret"), 200);
  EXPECT_EQ(status("BEARER   secret"), 200);
  EXPECT_EQ(status("secret"), 401);
  EXPECT_EQ(status("Basic secret"), 401);
  EXPECT_EQ(status("Bearersecret"), 401);
}

}  // namespace
}  // namespace attend::testing
