// attend serve as a process: options, API keys, and Ctrl-C.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "attend/models/registry.h"
#include "serve/http_testing.h"
#include "testing/process.h"

namespace attend::testing {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;
using std::chrono::milliseconds;

class ServeCommand : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TemporaryFolder>();
    const auto tokenizer = character_tokenizer();
    save_model(*tiny_model("gpt", tokenizer->size(), {{"context", "4096"}, {"positions", "rotary"}}), model());
    tokenizer->save(model());
  }
  static void TearDownTestSuite() { folder_.reset(); }
  static std::string model() { return folder_->file("gpt"); }
  static std::string file(const std::string& name, const std::string& text) {
    std::ofstream(folder_->file(name)) << text;
    return folder_->file(name);
  }

  static inline std::unique_ptr<TemporaryFolder> folder_;
};

/// The server, which runs until stop().
class Process {
 public:
  explicit Process(Words words) {
    words.insert(words.begin(), {ATTEND_BINARY_DIR "/attend", "serve", "--port", "0"});
    child_ = fork();
    if (child_ == 0) {
      dup2(open(files_.file("out").c_str(), O_WRONLY | O_CREAT, 0600), STDOUT_FILENO);
      dup2(open(files_.file("err").c_str(), O_WRONLY | O_CREAT, 0600), STDERR_FILENO);
      execute(words, {});
    }
    for (int i = 0; i < 3000 && !file_text(files_.file("out")).ends_with("/\n"); ++i) {
      std::this_thread::sleep_for(milliseconds(10));
    }
    const std::string address = file_text(files_.file("out"));
    port = std::atoi(address.substr(address.rfind(':') + 1).c_str());
    EXPECT_GT(port, 0) << file_text(files_.file("err"));
  }
  Finished stop() {
    kill(child_, SIGINT);
    const int code = exit_code(child_);
    return {code, file_text(files_.file("out")), file_text(files_.file("err"))};
  }
  std::string get(const std::string& path, const std::string& headers = {}) const {
    return testing::exchange(
        port, "GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + headers + "\r\n");
  }
  int port = 0;

 private:
  TemporaryFolder files_;
  pid_t child_ = -1;
};

TEST_F(ServeCommand, RefusesWhatNeverMatches) {
  const auto error = [&](const std::string& option, const std::string& value) {
    const Finished done = run({ATTEND_BINARY_DIR "/attend", "serve", model(), option, value});
    EXPECT_EQ(done.code, 2) << value;
    EXPECT_EQ(lines_of(done.err).size(), 1u) << done.err;
    return done.err;
  };
  for (const char* origin : {"foo", "https://", "https://app.example/page", "app.example", "https://a b", "https://a:x",
                             "https://app.example?x"}) {
    EXPECT_EQ(
        error("--cors-origin", origin),
        "attend: --cors-origin: expected *, or an origin like https://app.example or http://localhost:3000, got '" +
            std::string(origin) + "'; see attend serve --help\n");
  }
  for (const char* name : {"https://api.example.org", "api.example.org:8443", "", "a b"}) {
    EXPECT_EQ(error("--server-name", name),
              "attend: --server-name: expected a host name like api.example.org, without scheme and port, got '" +
                  std::string(name) + "'; see attend serve --help\n");
  }
}

TEST_F(ServeCommand, NormalisesAddressesAndKeys) {
  const std::string keys = file("keys", "# a comment\n  # another\n \t one key \t\r\n\n");
  Process server({model(), "--cors-origin", "HTTPS://App.example:443/", "--server-name", "API.example.org",
                  "--api-key-file", keys});
  const std::string key = "Authorization: Bearer one key\r\n";
  const std::string allowed = server.get("/v1/models", key + "Origin: https://app.example\r\n");
  EXPECT_EQ(status_of(allowed), 200) << allowed;
  EXPECT_NE(allowed.find("Access-Control-Allow-Origin: https://app.example\r\n"), std::string::npos);
  EXPECT_EQ(status_of(testing::exchange(server.port,
                                        "GET /health HTTP/1.1\r\nHost: api.example.org\r\nOrigin: "
                                        "https://api.example.org\r\nConnection: close\r\n\r\n")),
            200);
  EXPECT_EQ(server.stop().code, 0);
}

/// At the limit, requests in progress get an error instead of nothing.
TEST_F(ServeCommand, CtrlCWaitsAndThenAnswers) {
  Process server({model(), "--drain-seconds", "1", "--max-tokens-in-flight", "10000000", "--draft", "0"});
  const auto request = [](const char* more) {
    const std::string body = std::string(R"({"prompt":"a","max_tokens":4000,"ignore_eos":true,"n":100)") + more + "}";
    return "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) +
           "\r\n\r\n" + body;
  };
  const Client whole(server.port), stream(server.port);
  whole.send(request(""));
  stream.send(request(R"(,"stream":true)"));
  std::string events = stream.receive_some();
  std::string answer;
  std::thread reader([&] { events += stream.receive(); }), other([&] { answer = whole.receive(); });
  const auto start = std::chrono::steady_clock::now();
  const Finished done = server.stop();
  EXPECT_LT(std::chrono::steady_clock::now() - start, milliseconds(2500));
  reader.join();
  other.join();
  EXPECT_EQ(done.code, 0);
  EXPECT_NE(done.err.find("Waiting for 2 requests, at most 1 second; press Ctrl-C again to end at once.\n"),
            std::string::npos)
      << done.err;
  EXPECT_NE(done.err.find("attend: stopped before 2 requests finished\n"), std::string::npos) << done.err;
  EXPECT_EQ(status_of(answer), 503) << answer;
  const Json error = Json::parse(body_of(answer), nullptr, false);
  ASSERT_TRUE(error.is_object()) << answer;
  EXPECT_EQ(error["error"]["message"], "the server is stopping");
  EXPECT_EQ(error["error"]["type"], "server_error");
  EXPECT_TRUE(events.ends_with("\r\n0\r\n\r\n")) << events.substr(events.size() - std::min<size_t>(300, events.size()));
  EXPECT_NE(events.find(R"(data: {"error":{"message":"the server is stopping","type":"server_error")"),
            std::string::npos);
}

}  // namespace
}  // namespace attend::testing
