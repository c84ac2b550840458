// Tests of the BLEU and chrF checker itself: it must reject wrong cases.

#include <sys/wait.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "testing/gradients.h"
#include "testing/temporary_folder.h"

namespace attend {
namespace {

using nlohmann::json;

struct Outcome {
  int status = -1;
  std::string output;
};

Outcome goldens(const std::string& arguments) {
  Outcome result;
  FILE* pipe = popen((std::string(ATTEND_BINARY_DIR) + "/goldens " + arguments + " 2>&1").c_str(), "r");
  char buffer[512];
  while (pipe && std::fgets(buffer, sizeof buffer, pipe)) result.output += buffer;
  if (pipe) result.status = WEXITSTATUS(pclose(pipe));
  return result;
}

/// A passing case, which each test breaks in one way.
json right_case() {
  return {{"name", "one"},
          {"hypotheses", {"a b c d"}},
          {"references", {{"a b c d"}}},
          {"options", json::object()},
          {"bleu", 100.0},
          {"precisions", {100.0, 100.0, 100.0, 100.0}},
          {"brevity_penalty", 1.0},
          {"sys_len", 4},
          {"ref_len", 4},
          {"chrf2", 100.0},
          {"chrf2pp", 100.0}};
}

Outcome check(const json& file) {
  const testing::TemporaryFolder folder;
  std::ofstream(folder.file("metrics.json")) << file;
  return goldens(folder.path());
}

Outcome check_case(const json& c) { return check({{"reference", "by hand"}, {"cases", {c}}}); }

void expect_failure(const Outcome& outcome, const std::string& reason) {
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.output.find("metrics.json: " + reason + "\n"), std::string::npos) << outcome.output;
  EXPECT_NE(outcome.output.find("\n0 passed, 1 failed on "), std::string::npos) << outcome.output;
}

TEST(MetricGoldens, PassesACorrectCase) {
  const Outcome run = check_case(right_case());
  EXPECT_EQ(run.status, 0);
  EXPECT_TRUE(run.output.starts_with("1 passed, 0 failed on ")) << run.output;
}

TEST(MetricGoldens, ComparesEveryValue) {
  const auto with = [](const std::string& key, const json& value) {
    json c = right_case();
    c[key] = value;
    return check_case(c);
  };
  expect_failure(with("bleu", 99.99), "one: bleu is 100, expected 99.99");
  expect_failure(with("precisions", {100.0, 100.0, 100.0}), "one: precisions' count is 4, expected 3");
  expect_failure(with("precisions", {100.0, 100.0, 100.0, 99.5}), "one: precisions is 100, expected 99.5");
  expect_failure(with("brevity_penalty", 0.5), "one: brevity_penalty is 1, expected 0.5");
  expect_failure(with("sys_len", 5), "one: sys_len is 4, expected 5");
  expect_failure(with("ref_len", 5), "one: ref_len is 4, expected 5");
  expect_failure(with("chrf2", 90), "one: chrf2 is 100, expected 90");
  expect_failure(with("chrf2pp", 90), "one: chrf2pp is 100, expected 90");
  expect_failure(with("ter", 0), "one: nothing checks ter");
  expect_failure(with("options", {{"force", true}}), "one: nothing checks force");
}

TEST(MetricGoldens, RejectsInvalidFiles) {
  expect_failure(check({{"reference", "by hand"}, {"cases", json::array()}}), "there are no cases");
  expect_failure(check({{"other", 1}}), "nothing checks other");
}

}  // namespace
}  // namespace attend
