#include "attend/serve/server.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "serve/http_testing.h"
#include "testing/gradients.h"

namespace attend::testing {
namespace {

TEST(Server, AnswersOverHttp) {
  Served served;
  const std::string info = served.request("GET /api/info");
  EXPECT_EQ(status_of(info), 200);
  EXPECT_EQ(nlohmann::json::parse(body_of(info))["version"], "1");
  EXPECT_NE(info.find("X-Content-Type-Options: nosniff"), std::string::npos);
  const std::string run = served.request("POST /api/runs", {}, R"({"model":"m0","text":"hello"})");
  EXPECT_EQ(status_of(run), 200);
  const std::string array = served.request("GET /api/runs/r0/array?name=weights%2F0%2F1&rows=0%3A2");
  EXPECT_EQ(status_of(array), 200);
  EXPECT_NE(array.find("X-Shape: 2,5"), std::string::npos);
  EXPECT_EQ(body_of(array).size(), 40u);
  const std::string page = served.request("GET /");
  EXPECT_NE(page.find("Content-Security-Policy: default-src 'none'"), std::string::npos);
  const std::string lines = served.request("POST /api/generate", {}, R"({"model":"m0","text":"hello","length":3})");
  EXPECT_NE(lines.find("\"done\":true"), std::string::npos);
  EXPECT_NE(lines.find("Transfer-Encoding: chunked"), std::string::npos);
}

/// The page shows the error, so it must arrive as the API wrote it.
TEST(Server, PassesErrorsOn) {
  Served served;
  const auto error = [&](const std::string& line, const std::string& body) {
    const std::string answer = served.request(line, {}, body);
    EXPECT_GE(status_of(answer), 400);
    return nlohmann::json::parse(body_of(answer))["error"].get<std::string>();
  };
  EXPECT_EQ(error("POST /api/runs", R"({"model":"m7","text":"a"})"), "there is no model 'm7'");
  EXPECT_EQ(error("POST /api/runs", "{}"), "expected 'model'");
  EXPECT_EQ(error("GET /api/nothing", ""), "no such path: '/api/nothing'");
}

TEST(Server, RefusesForeignHostsAndOrigins) {
  Served served;
  const std::string port = std::string(":").append(std::to_string(served.server.port()));
  EXPECT_EQ(status_of(served.request("GET /api/info", "Host: localhost" + port + "\r\n")), 200);
  EXPECT_EQ(status_of(served.request("GET /api/info", "Host: evil.example" + port + "\r\n")), 403);
  EXPECT_EQ(status_of(served.request("GET /api/info", "X: y\r\n")), 403);
  const std::string host = "Host: localhost" + port + "\r\n";
  EXPECT_EQ(status_of(served.request("GET /api/info", host + "Origin: http://localhost" + port + "\r\n")), 200);
  EXPECT_EQ(status_of(served.request("GET /api/info", host + "Origin: http://evil.example\r\n")), 403);
  EXPECT_EQ(status_of(served.request("GET /api/info", host + "Origin: null\r\n")), 403);
  const std::string foreign = host + "Sec-Fetch-Site: cross-site\r\n";
  EXPECT_EQ(status_of(served.request("GET /api/info", foreign)), 403);
  EXPECT_EQ(status_of(served.request("GET /", foreign)), 403);
  EXPECT_EQ(status_of(served.request("GET /", foreign + "Sec-Fetch-Mode: navigate\r\n")), 200) << "a link to the page";
  EXPECT_EQ(status_of(served.request("GET /api/info", foreign + "Sec-Fetch-Mode: navigate\r\n")), 403);
  EXPECT_EQ(status_of(served.request("GET /api/info", host + "Sec-Fetch-Site: same-origin\r\n")), 200);
}

TEST(Server, RecognisesRequestsOfItsOwnPage) {
  EXPECT_TRUE(is_own_request("127.0.0.1:8757", "", "127.0.0.1"));
  EXPECT_TRUE(is_own_request("LOCALHOST:8757", "", "127.0.0.1"));
  EXPECT_TRUE(is_own_request("[::1]:8757", "http://[::1]:8757", "127.0.0.1"));
  EXPECT_TRUE(is_own_request("192.168.1.7:80", "", "0.0.0.0"));
  EXPECT_TRUE(is_own_request("box.local:1", "", "box.local"));
  EXPECT_FALSE(is_own_request("", "", "127.0.0.1"));
  EXPECT_FALSE(is_own_request("127.0.0.1.evil.example", "", "127.0.0.1"));
  EXPECT_FALSE(is_own_request("[::1].evil.example", "", "127.0.0.1"));
  EXPECT_FALSE(is_own_request("localhost.evil.example:8757", "", "127.0.0.1"));
  EXPECT_FALSE(is_own_request("127.0.0.1:8757", "http://127.0.0.1:9000", "127.0.0.1"));
  EXPECT_FALSE(is_own_request("127.0.0.1:8757", "https://127.0.0.1:8757", "127.0.0.1"));
}

TEST(Server, SurvivesMalformedRequests) {
  Served served;
  for (const std::string& bytes :
       {std::string("\r\n\r\n"), std::string("GET"), std::string("\x16\x03\x01\x02", 4),
        std::string("GET / HTTP/9.9\r\n\r\n"), std::string(100000, 'A'),
        "GET /" + std::string(20000, 'a') + " HTTP/1.1\r\nHost: localhost\r\n\r\n",
        std::string("POST /api/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n"),
        std::string("POST /api/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n")}) {
    const std::string answer = exchange(served.server.port(), bytes, true);
    EXPECT_TRUE(answer.empty() || status_of(answer) >= 400) << answer.substr(0, 100);
  }
  const std::string large = served.request("POST /api/runs", {}, std::string(17 << 20, 'x'));
  EXPECT_TRUE(large.empty() || status_of(large) == 413) << large.substr(0, 100);
  const std::string path = served.request("GET /../../../../etc/passwd");
  EXPECT_EQ(status_of(path), 404);
  EXPECT_EQ(path.find("root:"), std::string::npos);
  EXPECT_EQ(status_of(served.request("GET /%2e%2e/%2e%2e/etc/passwd")), 404);
  EXPECT_EQ(status_of(served.request("DELETE /api/runs/r0")), 405);
  EXPECT_TRUE(nlohmann::json::parse(body_of(served.request("GET /nothing"))).contains("error"));
  EXPECT_EQ(status_of(served.request("GET /api/info")), 200);
}

TEST(Server, ASecondServerTakesAnotherPort) {
  Api api({tiny_inspected("gpt")}, {});
  const Server first(api, {.port = 0});
  const Server second(api, {.port = first.port()});
  EXPECT_NE(second.port(), first.port());
  EXPECT_EQ(first.address(), "http://127.0.0.1:" + std::to_string(first.port()) + "/");
  expect_error<Error>(
      [&] { Server(api, {.port = first.port(), .other_port = false}); },
      "cannot listen at 127.0.0.1 port " + std::to_string(first.port()) + ": port in use, or not a local address");
  expect_error<Error>([&] { Server(api, {.host = "203.0.113.9", .port = 0}); },
                      "cannot listen at 203.0.113.9: no free port, or not a local address");
}

TEST(Server, StopsWhileAListenerWaits) {
  Served served;
  served.api.set_training(0, std::make_shared<TrainingFeed>(10, WatchedSentence{}));
  std::thread listener([&] { served.request("GET /api/training/events"); });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const auto start = std::chrono::steady_clock::now();
  served.server.stop();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(4));
  listener.join();
}

}  // namespace
}  // namespace attend::testing
