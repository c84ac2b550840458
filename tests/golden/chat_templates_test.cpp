// Tests of the chat template checker itself: it must reject wrong cases.

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "attend/io/json.h"
#include "testing/temporary_folder.h"

namespace attend {
namespace {

struct Outcome {
  int status = -1;
  std::string output;
};

/// A passing file with two cases, which each test breaks in one way.
struct ChatTemplateCase {
  Json file = Json::parse(R"({
    "name": "x", "source": "our own", "licence": "MIT", "special_tokens": {"bos_token": "<s>"}, "now": "2026-01-02",
    "template": "{% if messages %}{{ bos_token ~ messages[0].content ~ strftime_now('%a') }}{% else %}{{ raise_exception('none') }}{% endif %}",
    "cases": [{"name": "hello", "messages": [{"role": "user", "content": "Hi"}], "tools": null,
               "add_generation_prompt": true, "extra": {}, "expected": "<s>HiFri"},
              {"name": "empty", "messages": [], "tools": null, "add_generation_prompt": true, "extra": {},
               "error": "none", "error_type": "raise_exception"}]})");

  Outcome check() const {
    const testing::TemporaryFolder folder;
    std::filesystem::create_directory(folder.file("chat_templates"));
    std::ofstream(folder.file("chat_templates/x.json")) << file.dump();
    Outcome result;
    FILE* pipe = popen((std::string(ATTEND_BINARY_DIR) + "/goldens " + folder.path() + " 2>&1").c_str(), "r");
    char buffer[512];
    while (pipe && std::fgets(buffer, sizeof buffer, pipe)) result.output += buffer;
    if (pipe) result.status = WEXITSTATUS(pclose(pipe));
    return result;
  }
  void expect_failure(const std::string& reason) const {
    const Outcome run = check();
    EXPECT_EQ(run.status, 1);
    EXPECT_NE(run.output.find("x.json: " + reason), std::string::npos) << run.output;
  }
  Json& first() { return file["cases"][0]; }
  Json& second() { return file["cases"][1]; }
};

TEST(ChatTemplateGoldens, PassesACorrectFile) {
  const Outcome run = ChatTemplateCase{}.check();
  EXPECT_EQ(run.status, 0) << run.output;
  EXPECT_TRUE(run.output.starts_with("1 passed, 0 failed")) << run.output;
}

TEST(ChatTemplateGoldens, ComparesTextsAndErrors) {
  ChatTemplateCase wrong;
  wrong.first()["expected"] = "<s>HiMon";
  wrong.expect_failure(R"(hello: byte 5: expected "<s>HiMon", got "<s>HiFri")");
  wrong.second()["error"] = "other";
  wrong.expect_failure(R"(hello: byte 5: expected "<s>HiMon", got "<s>HiFri" (and 1 more cases))");
  wrong = {};
  wrong.second()["error_type"] = "TypeError";
  wrong.expect_failure("empty: expected TypeError, got the error: none");
  wrong = {};
  wrong.first().erase("expected");
  wrong.first()["error"] = "e";
  wrong.first()["error_type"] = "TypeError";
  wrong.expect_failure("hello: expected the error 'e', got text");
  wrong = {};
  wrong.file["template"] = "{{ 1 +";
  wrong.expect_failure("hello: expected text, got the error: chat template, line 1:");
}

TEST(ChatTemplateGoldens, UnknownFieldsAndMissingCasesFail) {
  ChatTemplateCase wrong;
  wrong.first()["stream"] = true;
  wrong.expect_failure("nothing checks stream");
  wrong = {};
  wrong.file["version"] = 2;
  wrong.expect_failure("nothing checks version");
  wrong = {};
  wrong.first().erase("expected");
  wrong.expect_failure("expected either a text or an error");
  wrong = {};
  wrong.file["cases"] = Json::array();
  wrong.expect_failure("there are no cases");
}

}  // namespace
}  // namespace attend
