#include "metrics.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "attend/base/error.h"
#include "attend/text/bleu.h"
#include "attend/text/chrf.h"
#include "sacrebleu.h"

namespace attend::golden {
namespace {

using nlohmann::json;

/// Throws for unknown keys, as they would not be checked.
void require_known(const json& object, const std::set<std::string>& known) {
  for (const auto& [key, value] : object.items()) require<FormatError>(known.contains(key), "nothing checks ", key);
}

void check_case(const json& c) {
  require_known(c, {"name", "hypotheses", "references", "options", "bleu", "precisions", "brevity_penalty", "sys_len",
                    "ref_len", "chrf2", "chrf2pp"});
  const auto hypotheses = c.at("hypotheses").get<std::vector<std::string>>();
  const auto references = c.at("references").get<std::vector<std::vector<std::string>>>();
  const BleuScore bleu = corpus_bleu(hypotheses, references, bleu_options(c.at("options")));
  expect_near("bleu", bleu.score, c.at("bleu"));
  expect_near("precisions", bleu.precisions, c.at("precisions"));
  expect_near("brevity_penalty", bleu.brevity_penalty, c.at("brevity_penalty"));
  expect_equal("sys_len", bleu.statistics.hypothesis_length, c.at("sys_len"));
  expect_equal("ref_len", bleu.statistics.reference_length, c.at("ref_len"));
  expect_near("chrf2", corpus_chrf(hypotheses, references), c.at("chrf2"));
  expect_near("chrf2pp", corpus_chrf(hypotheses, references, {.word_order = 2}), c.at("chrf2pp"));
}

void check_cases(const json& file) {
  require_known(file, {"reference", "cases"});
  require<FormatError>(!file.at("cases").empty(), "there are no cases");
  for (const json& c : file.at("cases")) {
    try {
      check_case(c);
    } catch (const std::exception& error) {
      throw FormatError(c.at("name").get<std::string>() + ": " + error.what());
    }
  }
}

}  // namespace

void expect_near(const std::string& what, double ours, double expected, double tolerance) {
  require<FormatError>(std::abs(ours - expected) <= tolerance, what, " is ", ours, ", expected ", expected);
}

void expect_near(const std::string& what, const std::vector<double>& ours, const std::vector<double>& expected,
                 double tolerance) {
  expect_equal(what + "' count", static_cast<int64_t>(ours.size()), static_cast<int64_t>(expected.size()));
  for (size_t i = 0; i < ours.size(); ++i) expect_near(what, ours[i], expected[i], tolerance);
}

void expect_equal(const std::string& what, int64_t ours, int64_t expected) {
  require<FormatError>(ours == expected, what, " is ", ours, ", expected ", expected);
}

BleuOptions bleu_options(const json& options) {
  require_known(options, {"tokenize", "lowercase", "smooth_method", "smooth_value"});
  BleuOptions result{.tokenizer = bleu_tokenizer(options.value("tokenize", "13a")),
                     .lowercase = options.value("lowercase", false),
                     .smoothing = bleu_smoothing(options.value("smooth_method", "exp"))};
  if (options.contains("smooth_value")) result.smoothing_value = options.at("smooth_value").get<double>();
  return result;
}

bool is_metrics_file(const std::string& path) {
  const std::filesystem::path file(path);
  return file.filename() == "metrics.json" ||
         (file.filename() == "golden.json" && std::filesystem::exists(file.parent_path() / "reference.de"));
}

std::string check_metrics_file(const std::string& path) {
  try {
    std::ifstream stream(path);
    const json file = json::parse(stream);
    if (file.contains("cases"))
      check_cases(file);
    else
      check_sacrebleu(file, std::filesystem::path(path).parent_path().string());
    return {};
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace attend::golden
