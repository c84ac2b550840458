// The server's limits against hostile connections, over real sockets.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <vector>

#include "serve/http/http_server.h"
#include "serve/http_testing.h"

namespace attend::testing {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr const char* kBody = R"({"model":"m0","text":"hello"})";

void expect_refused(const std::string& answer, int status, const std::string& why) {
  EXPECT_EQ(status_of(answer), status) << answer.substr(0, 200);
  EXPECT_EQ(body_of(answer), "{\"error\":\"" + why + "\"}") << answer.substr(0, 200);
  EXPECT_NE(answer.find("Connection: close\r\n"), std::string::npos);
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(Limits, RangeRequestsAreRefused) {
  Served served({.version = "1", .page = "packed"});
  for (const char* range :
       {"bytes=0-200000", "bytes=5000-9000", "bytes=0-3", "bytes=-5", "bytes=2-", "bytes=0-1,4-9",
        "bytes=9223372036854775807-9223372036854775807", "bytes=99999999999999999999-", "lines=1", "bytes=9-2"}) {
    for (const char* path : {"/api/info", "/", "/nothing"}) {
      const std::string headers = served.host() + "Range: " + range + "\r\n";
      expect_refused(served.request(std::string("GET ") + path, headers), 416, "range requests are not supported");
    }
  }
}

TEST(Limits, ErrorMessagesOfTheApiArrive) {
  Served served({.version = "1", .longest = 20, .most_streams = 0});
  const auto post = [&](const std::string& path, const std::string& body) {
    return served.request("POST " + path, {}, body);
  };
  expect_refused(post("/api/runs", R"({"model":"m7","text":"a"})"), 404, "there is no model 'm7'");
  expect_refused(post("/api/runs", "{}"), 400, "expected 'model'");
  expect_refused(post("/api/runs", R"({"model":"m0","text":")" + std::string(30, 'a') + "\"}"), 400,
                 "inspect: the text has 30 tokens; at most 20 can be inspected");
  expect_refused(post("/api/generate", kBody), 503, "too many streams are open; try again");
  expect_refused(served.request("GET /api/runs"), 405, "/api/runs takes POST, not 'GET'");
  expect_refused(served.request("GET /nothing"), 404, "no such path: '/nothing'");
  EXPECT_EQ(status_of(post("/api/runs", kBody)), 200);
  expect_refused(served.request("GET /api/runs/r0/stats?attention=0&head=99"), 400,
                 "inspect: there is no head 99; the layer has 2, counted from 0");
}

TEST(Limits, BodiesMustDeclareTheirLength) {
  Served served;
  const auto post = [&](const std::string& headers, const std::string& body = {}) {
    return exchange(served.server.port(), "POST /api/runs HTTP/1.1\r\n" + served.host() + headers + "\r\n" + body);
  };
  const std::string chunk = "100000\r\n" + std::string(1 << 20, 'a') + "\r\n";
  expect_refused(post("Transfer-Encoding: chunked\r\n", chunk), 411, "the request needs a Content-Length");
  expect_refused(post("transfer-encoding: identity\r\nContent-Length: 2\r\n", "{}"), 411,
                 "the request needs a Content-Length");
  expect_refused(post("", "{}"), 411, "the request needs a Content-Length");
  expect_refused(post("Content-Encoding: gzip\r\nContent-Length: 2\r\n", "{}"), 415, "the body must not be compressed");
  expect_refused(post("Content-Type: multipart/form-data; boundary=a\r\nContent-Length: 2\r\n", "{}"), 415,
                 "the body must not be multipart");
  for (const char* length : {"Content-Length: -5\r\n", "Content-Length: 2x\r\n", "Content-Length: 0x2\r\n",
                             "Content-Length: 2\r\nContent-Length: 2\r\n"}) {
    expect_refused(post(length, "{}"), 400, "Content-Length is not a number");
  }
  for (const char* length : {"99999999", "99999999999", "18446744073709551618"}) {
    expect_refused(post("Content-Length: " + std::string(length) + "\r\n", "{}"), 413, "the request is too large");
  }
  const std::string large(32 << 20, 'x');  // the response arrives although the client is still sending
  expect_refused(served.request("POST /api/runs", {}, large), 413, "the request is too large");
}

TEST(Limits, HeadsAreShort) {
  Served served;
  std::string many = served.host();
  for (int i = 0; i < 200000; ++i) many += "X-" + std::to_string(i) + ": a\r\n";
  expect_refused(served.request("GET /api/info", many), 431, "the request's head is longer than 32 KiB");
  const std::string padding(100000, 'a');
  expect_refused(exchange(served.server.port(), padding), 431, "the request's head is longer than 32 KiB");
  expect_refused(served.request("GET /" + padding.substr(0, 9000)), 414, "the address is too long");
  EXPECT_EQ(status_of(served.request("GET /api/info", served.host() + "X: " + padding.substr(0, 8000) + "\r\n")), 200);
}

/// The body is sent after a pause, so that it arrives in a separate packet, as large bodies from browsers do.
TEST(Limits, TheBodyOfARefusedRequestIsNotParsedAsARequest) {
  Served served;
  const std::string inner = "POST /api/runs HTTP/1.1\r\n" + served.host() +
                            "Content-Length: " + std::to_string(std::string(kBody).size()) + "\r\n\r\n" + kBody;
  const std::string length = "Content-Length: " + std::to_string(inner.size()) + "\r\n";
  const std::string evil = "Origin: http://evil.example\r\n";
  const std::vector<std::pair<int, std::string>> cases = {
      {403, "POST /api/runs HTTP/1.1\r\n" + served.host() + evil + length},
      {403, "POST /api/runs HTTP/1.1\r\nHost: evil.example\r\n" + length},
      {403, "POST /api/runs HTTP/1.1\r\n" + served.host() + "Host: evil.example\r\n" + length},
      {405, "PUT /api/runs HTTP/1.1\r\n" + served.host() + length},
      {411, "POST /api/runs HTTP/1.1\r\n" + served.host() + "Transfer-Encoding: chunked\r\n"},
      {416, "POST /api/runs HTTP/1.1\r\n" + served.host() + "Range: bytes=0-\r\n" + length},
      {400, "POST /api/runs HTTP/1.1 x\r\n" + served.host() + length},
      {200, "GET /api/info HTTP/1.1\r\n" + served.host() + "Connection: close\r\n" + length},
      {200, "GET /api/info HTTP/1.1\r\n" + served.host() + "Connection: close\r\n"}};
  for (const auto& [status, head] : cases) {
    for (const int pause : {0, 200}) {
      const Client client(served.server.port());
      client.send(head + "\r\n");
      std::this_thread::sleep_for(milliseconds(pause));
      client.send(inner);
      const std::string answer = client.receive();
      EXPECT_EQ(status_of(answer), status) << head;
      EXPECT_EQ(count_of(answer, "HTTP/1.1 "), 1u) << head;
    }
  }
  EXPECT_EQ(status_of(served.request("GET /api/runs/r0")), 404);  // no run was created
}

TEST(Limits, SlowSendersDoNotKeepOthersWaiting) {
  Served served;
  std::vector<std::unique_ptr<Client>> slow;
  const std::string head = " /api/runs HTTP/1.1\r\n" + served.host();
  for (int i = 0; i < 40; ++i) {
    slow.push_back(std::make_unique<Client>(served.server.port()));
    slow.back()->send(i % 2 == 0 ? "GET" + head + "X: " : "POST" + head + "Content-Length: 1000\r\n\r\n");
  }
  std::atomic<bool> is_over = false;
  std::thread trickle([&] {
    for (; !is_over; std::this_thread::sleep_for(milliseconds(100))) {
      for (const auto& client : slow) client->send("a");
    }
  });
  const auto start = Clock::now();
  EXPECT_EQ(status_of(served.request("GET /api/info")), 200);
  EXPECT_LT(Clock::now() - start, seconds(8));
  is_over = true;
  trickle.join();
  expect_refused(slow[0]->receive(), 408, "the request took too long to arrive");
  expect_refused(slow[1]->receive(), 408, "the request took too long to arrive");
}

/// A server whose handler answers in the event loop: /large with 2 MiB, other paths with their names.
struct SmallServer {
  explicit SmallServer(const HttpOptions& options = {})
      : http({.check = {},
              .refuse = [](const HttpRequest&, const Refusal& why) { return HttpResponse{.status = why.status}; },
              .handle =
                  [](const HttpRequest& request, Responder responder) {
                    responder.send({.body = request.path == "/large" ? std::string(2 << 20, 'p') : request.path});
                  }},
             options),
        port(http.listen("127.0.0.1", 0)) {
    http.start();
  }
  HttpServer http;
  int port;
};

/// A request is answered although many connections send nothing, send half a request, or do not read.
TEST(Limits, SlowConnectionsTakeNoThreads) {
  SmallServer server;
  std::vector<std::unique_ptr<Client>> slow;
  for (int i = 0; i < 600; ++i) {
    slow.push_back(std::make_unique<Client>(server.port));
    const char* sent[] = {"", "GET / HT", "POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n{",
                          "GET /large HTTP/1.1\r\n\r\n"};
    slow.back()->send(sent[i < 32 ? i % 4 : i % 3]);
  }
  const auto start = Clock::now();
  EXPECT_EQ(status_of(exchange(server.port, "GET /small HTTP/1.1\r\nConnection: close\r\n\r\n")), 200);
  EXPECT_LT(Clock::now() - start, seconds(2));
  EXPECT_FALSE(slow[597]->has_answer()) << "its five seconds are not over";
}

TEST(Limits, TooManyConnectionsCloseTheOldest) {
  SmallServer server({.most_connections = 3});
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(std::make_unique<Client>(server.port));
    clients.back()->send("GET / HTTP/1.1\r\n\r\n");
    EXPECT_EQ(status_of(clients.back()->receive_some()), 200) << i;
  }
  EXPECT_EQ(clients[0]->receive(), "") << "closed";
  for (size_t i = 1; i < clients.size(); ++i) EXPECT_FALSE(clients[i]->has_answer());
}

TEST(Limits, AConnectionCarriesSeveralRequests) {
  SmallServer server;
  const Client client(server.port);
  for (const char* path : {"/a", "/b"}) {
    client.send(std::string("GET ") + path + " HTTP/1.1\r\n\r\n");
    const std::string answer = client.receive_some();
    EXPECT_EQ(status_of(answer), 200);
    EXPECT_EQ(body_of(answer), path);
  }
  // Two requests at once are answered in their order, then the connection ends as requested.
  client.send("POST /c HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcGET /d HTTP/1.1\r\nConnection: close\r\n\r\n");
  const std::string answers = client.receive();
  EXPECT_EQ(count_of(answers, "HTTP/1.1 200 OK"), 2u);
  EXPECT_LT(answers.find("/c"), answers.find("/d"));
}

TEST(Limits, AnIdleConnectionIsClosed) {
  SmallServer server({.idle = milliseconds(100)});
  const Client client(server.port);
  client.send("GET / HTTP/1.1\r\n\r\n");
  const auto start = Clock::now();
  EXPECT_EQ(status_of(client.receive()), 200);
  EXPECT_LT(Clock::now() - start, seconds(2));
}

TEST(Limits, AHangUpIsNoticed) {
  std::vector<Responder> held;
  std::atomic<int> count = 0;
  HttpServer http({.check = {},
                   .refuse = {},
                   .handle =
                       [&](const HttpRequest&, Responder responder) {
                         responder.start({});
                         held.push_back(std::move(responder));
                         ++count;
                       }},
                  {});
  const int port = http.listen("127.0.0.1", 0);
  http.start();
  {
    const Client client(port);
    client.send("GET / HTTP/1.1\r\nConnection: close\r\n\r\n");
    while (count == 0) std::this_thread::sleep_for(milliseconds(1));
    EXPECT_TRUE(held[0].write("a piece"));
    EXPECT_EQ(http.running(), 1);
  }
  for (int i = 0; i < 1000 && !held[0].is_gone(); ++i) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_TRUE(held[0].is_gone());
  EXPECT_FALSE(held[0].write("another piece"));
  EXPECT_EQ(http.running(), 0);
}

/// A client that does not read gets no more than a MiB ahead of itself.
TEST(Limits, AStreamIsNotBufferedWithoutEnd) {
  std::atomic<int64_t> written = -1;
  SmallServer server;
  HttpServer http({.check = {},
                   .refuse = {},
                   .handle =
                       [&](const HttpRequest&, Responder responder) {
                         responder.start({});
                         int64_t bytes = 0;
                         while (responder.write(std::string(4096, 'a'))) bytes += 4096;
                         written = bytes;
                       }},
                  {});
  const int port = http.listen("127.0.0.1", 0);
  http.start();
  const Client client(port);
  client.send("GET / HTTP/1.1\r\n\r\n");
  while (written < 0) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_LE(written, 1 << 20);
}

TEST(Limits, ALongAnswerArrivesLate) {
  const std::string page(8 << 20, 'p');
  Served served({.version = "1", .page = page});
  const Client client(served.server.port());
  client.send("GET / HTTP/1.1\r\n" + served.host() + "Connection: close\r\n\r\n");
  std::this_thread::sleep_for(milliseconds(500));
  EXPECT_EQ(body_of(client.receive()), page);
}

/// curl --data-binary declares any body as a form.
TEST(Limits, BodiesDeclaredAsFormsAreReadUnchanged) {
  Served served;
  const std::string form = served.host() + "Content-Type: application/x-www-form-urlencoded\r\n";
  EXPECT_EQ(status_of(served.request("POST /api/runs", form, kBody)), 200);
  expect_refused(served.request("POST /api/pictures", form, "&model=m0" + std::string(1 << 20, 'x')), 400,
                 "the picture: expected a PNG or a JPEG");
}

TEST(Limits, Expect100ContinueIsAnswered) {
  Served served;
  const Client client(served.server.port());
  client.send("POST /api/runs HTTP/1.1\r\n" + served.host() +
              "Connection: close\r\nExpect: 100-continue\r\nContent-Length: " +
              std::to_string(std::string(kBody).size()) + "\r\n\r\n");
  while (!client.has_answer()) std::this_thread::sleep_for(milliseconds(5));
  client.send(kBody);
  const std::string answer = client.receive();
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 100 Continue\r\n\r\n")) << answer.substr(0, 100);
  EXPECT_NE(answer.find("HTTP/1.1 200 OK\r\n"), std::string::npos) << answer.substr(0, 200);
}

TEST(Limits, StoppingDoesNotWaitForSlowClients) {
  Served served({.version = "1", .page = std::string(16 << 20, 'p')});
  const Client silent(served.server.port()), reads_nothing(served.server.port()), half(served.server.port());
  reads_nothing.send("GET / HTTP/1.1\r\n" + served.host() + "\r\n");
  half.send("POST /api/runs HTTP/1.1\r\n" + served.host() + "Content-Length: 1000\r\n\r\n{");
  std::this_thread::sleep_for(milliseconds(300));
  const auto start = Clock::now();
  served.server.stop();
  EXPECT_LT(Clock::now() - start, seconds(3));
}

}  // namespace
}  // namespace attend::testing
