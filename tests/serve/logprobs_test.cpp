// The field "logprobs" of /v1/completions: names and places of tokens that are parts of characters.
#include <gtest/gtest.h>

#include "attend/text/utf8.h"
#include "serve/model_api_testing.h"

namespace attend::testing {
namespace {

using Json = nlohmann::json;

std::shared_ptr<const Tokenizer> trained(TokenizerKind kind, int64_t vocabulary) {
  const std::vector<std::string> lines{"once upon a time", "宝玉王也笑道", "upon a time 宝玉", "王也 once"};
  size_t next = 0;
  return train_tokenizer([&] { return next < 80 ? std::optional(lines[next++ % lines.size()]) : std::nullopt; },
                         {.kind = kind, .vocabulary = vocabulary, .min_count = 1});
}

/// A server of one untrained language model.
struct LanguageServer {
  ModelApi models;
  Server server;

  explicit LanguageServer(const std::shared_ptr<const Tokenizer>& tokenizer, bool as_transformers = false)
      : models({{.name = "gpt",
                 .model = tiny_model("gpt", tokenizer->size(), {{"context", "200"}}),
                 .tokenizer = tokenizer,
                 .rules = {.as_transformers = as_transformers}}},
               {}),
        server(nullptr, models, {.port = 0}) {
    server.start();
  }
  ~LanguageServer() {
    server.stop();
    models.stop();
  }
  std::string request(const Json& body) const {
    const std::string text = body.dump();
    return exchange(server.port(),
                    "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: " +
                        std::to_string(text.size()) + "\r\n\r\n" + text);
  }
  Json choice(const Json& body) const {
    const Json answer = Json::parse(body_of(request(body)));
    EXPECT_TRUE(answer.contains("choices")) << answer;
    return answer.contains("choices") ? answer["choices"][0] : Json();
  }
  /// The choice of a stream, put together.
  Json streamed(Json body) const {
    body["stream"] = true;
    Json whole{{"text", ""}, {"logprobs", Json::object()}};
    for (const Json& event : events_of(request(body))) {
      const Json& part = event["choices"][0];
      whole["text"] = whole["text"].get<std::string>() + part["text"].get<std::string>();
      for (const auto& [name, values] : part["logprobs"].items()) {
        Json& all = whole["logprobs"].emplace(name, Json::array()).first.value();
        all.insert(all.end(), values.begin(), values.end());
      }
    }
    return whole;
  }
};

/// The bytes of a token by its name.
std::string bytes_of(const std::string& name) {
  if (!name.starts_with("bytes:")) return name;
  std::string bytes;
  for (size_t at = 6; at < name.size(); ++at) {
    if (name[at] != '\\') {
      bytes += name[at];
      continue;
    }
    EXPECT_EQ(name[at + 1], 'x') << name;
    bytes += static_cast<char>(std::stoi(name.substr(at + 2, 2), nullptr, 16));
    at += 3;
  }
  return bytes;
}

size_t characters_of(const std::string& bytes) { return code_points(repair_utf8(bytes).text).size(); }

TEST(Logprobs, PartsOfCharactersHaveNames) {
  const LanguageServer served(trained(TokenizerKind::bpe, 270));
  const Json logprobs = served.choice(
      {{"prompt", "宝玉"}, {"max_tokens", 12}, {"seed", 1}, {"temperature", 90}, {"logprobs", 10}})["logprobs"];
  size_t parts = 0, unlikely = 0;
  for (size_t i = 0; i < logprobs["tokens"].size(); ++i) {
    const std::string name = logprobs["tokens"][i];
    const Json& top = logprobs["top_logprobs"][i];
    EXPECT_GE(top.size(), 10u) << top;
    ASSERT_TRUE(top.contains(name)) << name << " of " << top;
    EXPECT_EQ(top[name], logprobs["token_logprobs"][i]);
    for (const auto& [other, value] : top.items()) EXPECT_EQ(other.find("\uFFFD"), std::string::npos) << other;
    parts += name.starts_with("bytes:\\x");
    unlikely += top.size() == 11;
  }
  EXPECT_GT(parts, 0u) << logprobs["tokens"];
  EXPECT_GT(unlikely, 0u) << "a drawn token beside the likeliest ones";
}

TEST(Logprobs, OffsetsCountTheCharactersOfTheText) {
  const LanguageServer served(trained(TokenizerKind::bpe, 270));
  for (const bool echoes : {false, true}) {
    for (int seed = 0; seed < 6; ++seed) {
      const Json body{{"prompt", "宝玉 once 贾"}, {"max_tokens", 60},   {"seed", seed}, {"echo", echoes},
                      {"temperature", 90},        {"ignore_eos", true}, {"logprobs", 2}};
      const Json whole = served.choice(body), streamed = served.streamed(body);
      EXPECT_EQ(streamed["text"], whole["text"]);
      EXPECT_EQ(streamed["logprobs"], whole["logprobs"]);
      std::string bytes;
      for (size_t i = 0; i < whole["logprobs"]["tokens"].size(); ++i) {
        const std::string own = bytes_of(whole["logprobs"]["tokens"][i]);
        if (own != "</s>") {
          EXPECT_EQ(whole["logprobs"]["text_offset"][i], characters_of(bytes + own[0]) - 1) << "token " << i << whole;
          bytes += own;
        }
      }
      EXPECT_EQ(whole["text"], repair_utf8(bytes).text);
    }
  }
}

/// SentencePiece puts a space before a text that decoding drops, and spells unknown characters in bytes.
TEST(Logprobs, OffsetsWithoutTheSpaceThatDecodingDrops) {
  const LanguageServer served(trained(TokenizerKind::sentencepiece, 290), true);
  const Json choice =
      served.choice({{"prompt", "once upon 雪"}, {"max_tokens", 8}, {"seed", 3}, {"echo", true}, {"logprobs", 1}});
  const Json &tokens = choice["logprobs"]["tokens"], &offsets = choice["logprobs"]["text_offset"];
  const std::u32string text = code_points(choice["text"].get<std::string>());
  EXPECT_EQ(tokens[0], "<s>");
  EXPECT_EQ(offsets[0], 0);
  size_t parts = 0;
  bool is_first = true;
  for (size_t i = 1; i < tokens.size() && offsets[i] <= 10; ++i) {
    const std::string token = tokens[i];
    if (token.starts_with("bytes:")) {
      EXPECT_EQ(offsets[i], 10);
      ++parts;
      continue;
    }
    const std::u32string own = code_points(token).substr(is_first ? 1 : 0);
    EXPECT_EQ(text.substr(offsets[i], own.size()), own) << choice;
    is_first = false;
  }
  EXPECT_EQ(parts, 3u) << choice;
}

TEST(Logprobs, OffsetsInAPromptThatDecodingDoesNotRestore) {
  const ServedModels served;  // its tokenizer knows a few characters
  const Json choice = served.complete(
      {{"prompt", "a雪bb雪"}, {"max_tokens", 2}, {"seed", 3}, {"echo", true}, {"logprobs", 0}})["choices"][0];
  EXPECT_EQ(choice["logprobs"]["text_offset"], (Json{0, 1, 2, 3, 4, 5, 6})) << choice;
}

}  // namespace
}  // namespace attend::testing
