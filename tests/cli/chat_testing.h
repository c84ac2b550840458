#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "attend/io/json.h"
#include "attend/models/registry.h"
#include "attend/text/tokenizer.h"
#include "testing/process.h"

namespace attend {

using Words = std::vector<std::string>;

inline constexpr const char* kTemplate =
    "{% for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('no tools here') }}{% endif %}"
    "{{ m.role[0] }}: {{ m.content }}\n{% endfor %}{{ mood | default('') }}a:";

/// Conversations with small untrained models: plain has no template, the context of chat is 200 tokens, of long 6000.
class Chat : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<testing::TemporaryFolder>();
    make("plain", 64);
    make("chat", 200);
    make("long", 6000);
    write("chat/chat_template.jinja", kTemplate);
    write("long/chat_template.jinja", kTemplate);
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static void make(const std::string& name, int64_t context) {
    size_t next = 0;
    const std::vector<std::string> corpus{"the quick brown fox jumps over a lazy dog: USA.\n",
                                          "今天天气很好，我们去公园。"};
    const auto tokenizer = train_tokenizer(
        [&]() -> std::optional<std::string> {
          return next < corpus.size() ? std::optional(corpus[next++]) : std::nullopt;
        },
        {.kind = TokenizerKind::characters, .vocabulary = 200, .min_count = 1});
    Rng rng{3};
    const auto model =
        create_model(with_settings(preset_config("gpt", "tiny"), {{"vocab_size", std::to_string(tokenizer->size())},
                                                                  {"dim", "16"},
                                                                  {"heads", "2"},
                                                                  {"layers", "2"},
                                                                  {"context", std::to_string(context)}}),
                     rng);
    save_model(*model, path(name));
    tokenizer->save(path(name));
  }

  static std::string path(const std::string& name) { return folder_->file(name); }
  static std::string write(const std::string& name, const std::string& content) {
    std::ofstream(path(name), std::ios::binary) << content;
    return path(name);
  }
  static testing::Finished chat(const std::string& input, Words more = {}, const std::string& model = "chat") {
    Words words{ATTEND_BINARY_DIR "/attend", "chat", path(model), "--device", "cpu"};
    words.insert(words.end(), more.begin(), more.end());
    return testing::run(words, {.input = input});
  }
  /// The answers of --json.
  static std::vector<Json> answers(const std::string& input, Words more = {}) {
    more.insert(more.end(), {"--json", "--greedy", "--tokens", "8"});
    const testing::Finished run = chat(input, more);
    EXPECT_EQ(run.code, 0) << run.err;
    std::vector<Json> result;
    for (const std::string& line : testing::lines_of(run.out)) result.push_back(Json::parse(line));
    return result;
  }
  static int64_t prompt_tokens(const std::string& input, Words more = {}) {
    return answers(input, std::move(more)).back()["prompt_tokens"].integer();
  }
  /// What `attend generate` writes after a prompt.
  static std::string continued(const std::string& prompt) {
    const testing::Finished run = testing::run({ATTEND_BINARY_DIR "/attend", "generate", path("chat"), "--whole-text",
                                                "--greedy", "--tokens", "8", "--json", "--device", "cpu"},
                                               {.input = prompt});
    EXPECT_EQ(run.code, 0) << run.err;
    return Json::parse(run.out)["text"].string();
  }

  static inline std::unique_ptr<testing::TemporaryFolder> folder_;
};

}  // namespace attend
