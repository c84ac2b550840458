#include "serve/http/request_parser.h"

#include <gtest/gtest.h>

namespace attend::testing {
namespace {

using State = RequestParser::State;

TEST(RequestParser, ReadsARequest) {
  RequestParser parser;
  EXPECT_EQ(parser.push("POST /a%20b/%e4%bd%a0?x=1+2&y=%3D&x=3&z HTTP/1.1\r\nHost: here\r\nX-One:  two words \r\n"
                        "Content-Length: 5\r\n\r\nhelloGET / HT"),
            State::complete);
  const HttpRequest request = parser.take();
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.path, "/a b/你");
  EXPECT_EQ(request.query, (std::map<std::string, std::string>{{"x", "1 2"}, {"y", "="}, {"z", ""}}));
  EXPECT_EQ(request.header("x-one"), "two words");
  EXPECT_EQ(request.header("host"), "here");
  EXPECT_EQ(request.header("absent"), "");
  EXPECT_EQ(request.body, "hello");
  EXPECT_TRUE(request.keeps_alive);
  EXPECT_EQ(parser.state(), State::head);
  EXPECT_EQ(parser.push("TP/1.0\r\n\r\n"), State::complete);
  const HttpRequest next = parser.take();
  EXPECT_TRUE(next.is_http10);
  EXPECT_FALSE(next.keeps_alive);
}

TEST(RequestParser, GivesTheSameRequestForPiecesOfAnySize) {
  const std::string bytes =
      "\r\nPOST /p?q=r HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nConnection: Close\r\n\r\n{ }GET /2 HTTP/1.1\r\n\r\n";
  for (size_t size = 1; size <= bytes.size(); ++size) {
    RequestParser parser;
    std::vector<HttpRequest> requests;
    for (size_t at = 0; at < bytes.size(); at += size) {
      parser.push(std::string_view(bytes).substr(at, size));
      while (parser.state() == State::complete) requests.push_back(parser.take());
    }
    ASSERT_EQ(requests.size(), 2u) << size;
    EXPECT_EQ(requests[0].body, "{ }");
    EXPECT_FALSE(requests[0].keeps_alive);
    EXPECT_EQ(requests[1].path, "/2");
  }
}

/// Clients of proxies send them; the host in the target counts (RFC 9112, section 3.2.2).
TEST(RequestParser, ReadsTargetsInAbsoluteForm) {
  const auto read = [](const std::string& target) {
    RequestParser parser;
    EXPECT_EQ(parser.push("GET " + target + " HTTP/1.1\r\nHost: other\r\n\r\n"), State::complete) << target;
    return parser.take();
  };
  const HttpRequest request = read("HTTP://here:80/a%20b?x=1");
  EXPECT_EQ(request.target, "/a%20b?x=1");
  EXPECT_EQ(request.path, "/a b");
  EXPECT_EQ(request.query.at("x"), "1");
  EXPECT_EQ(request.header("host"), "here:80");
  EXPECT_EQ(read("https://[::1]").target, "/");
  EXPECT_EQ(read("http://here?x").target, "/?x");
  EXPECT_EQ(read("/http://there/").header("host"), "other");
}

int status_for(const std::string& bytes) {
  RequestParser parser;
  return parser.push(bytes) == State::refused ? parser.refusal().status : 0;
}

TEST(RequestParser, RefusesMalformedHeads) {
  for (const char* line :
       {"GET /", "GET  / HTTP/1.1", "GET / HTTP/1.1 x", " GET / HTTP/1.1", "G@T / HTTP/1.1", "GET a HTTP/1.1",
        "GET http:// HTTP/1.1", "GET http:///a HTTP/1.1", "GET http://u@a/ HTTP/1.1", "GET ftp://a/ HTTP/1.1",
        "GET /\x01 HTTP/1.1", "GET / FTP/1.1"}) {
    EXPECT_EQ(status_for(std::string(line) + "\r\n\r\n"), 400) << line;
  }
  EXPECT_EQ(status_for("GET / HTTP/2.0\r\n\r\n"), 505);
  for (const char* header : {"no colon", "space : x", " folded: x", "a: b\nc: d", ": x", "a: \x7f"}) {
    EXPECT_EQ(status_for(std::string("GET / HTTP/1.1\r\n") + header + "\r\n\r\n"), 400) << header;
  }
  EXPECT_EQ(status_for("GET / HTTP/1.1\r\nX: " + std::string(40000, 'a')), 431);
  EXPECT_EQ(status_for("GET /" + std::string(9000, 'a') + " HTTP/1.1\r\n\r\n"), 414);
}

TEST(RequestParser, AsksTheCheckBeforeTheBody) {
  RequestParser parser({}, [](const HttpRequest& head) -> std::optional<Refusal> {
    return head.path == "/no" ? std::optional(Refusal{403, "no"}) : std::nullopt;
  });
  EXPECT_EQ(parser.push("POST /yes HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n"), State::body);
  EXPECT_TRUE(parser.take_expectation());
  EXPECT_FALSE(parser.take_expectation());
  EXPECT_EQ(parser.push("x"), State::complete);
  parser.take();
  EXPECT_EQ(parser.push("POST /no HTTP/1.1\r\nContent-Length: 30\r\n\r\n"), State::refused);
  EXPECT_EQ(parser.refusal().status, 403);
  EXPECT_EQ(parser.push("GET /yes HTTP/1.1\r\n\r\n"), State::refused) << "the rest may be the body";
  EXPECT_EQ(parser.abandon().path, "/no");
}

}  // namespace
}  // namespace attend::testing
