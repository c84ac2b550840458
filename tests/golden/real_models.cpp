#include "real_models.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "attend/autograd/autograd.h"
#include "attend/hub/hub.h"
#include "attend/tensor/creation.h"
#include "attend/text/tokenizer.h"
#include "nano_sort.h"

namespace attend::golden {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Ids = std::vector<int64_t>;

Json json_of(const fs::path& path) {
  std::ifstream in(path);
  return Json::parse(in, nullptr, false);
}

struct Written {
  Ids ids;                    ///< without the prompt
  std::vector<float> logits;  ///< after the prompt
};

Written greedy(const LanguageModel& model, const Ids& prompt, size_t count) {
  const NoGrad scope;
  const auto decoding = model.start();
  Tensor logits = decoding->step(attend::tensor<int64_t>(prompt, {1, std::ssize(prompt)}));
  Written result{{}, logits.to_vector()};
  while (true) {
    const auto values = logits.to_vector();
    result.ids.push_back(std::ranges::max_element(values) - values.begin());
    if (result.ids.size() == count) return result;
    logits = decoding->step(attend::tensor<int64_t>({result.ids.back()}, {1, 1}));
  }
}

std::string compare_ids(const Ids& ours, const Ids& expected) {
  if (ours == expected) return {};
  return "expected the ids " + Json(expected).dump() + ", got " + Json(ours).dump();
}

/// The expected numbers are rounded to six decimals.
std::string compare_logits(const std::vector<float>& ours, const std::vector<double>& expected) {
  double largest = 0, worst = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    worst = std::max(worst, std::abs(static_cast<double>(ours.at(i)) - expected[i]));
  }
  if (worst <= 1e-4 * largest) return {};
  return "logits are off by " + std::to_string(worst) + ", allowed " + std::to_string(1e-4 * largest);
}

std::string check_cases(const LanguageModel& model, const Json& cases) {
  for (const Json& one : cases) {
    const Ids expected = one.at("greedy_ids");
    const Written written = greedy(model, one.at("prompt_ids"), expected.size());
    std::string problem = compare_ids(written.ids, expected);
    if (problem.empty()) problem = compare_logits(written.logits, one.at("last_prompt_logits"));
    if (!problem.empty()) return problem;
  }
  return cases.empty() ? "the file holds no case" : "";
}

/// Checks a story: its ids, the logits after its beginning, and its text through the tokenizer.
std::string check_story(const LanguageModel& model, const Json& golden, const std::string& folder) {
  const Ids expected = golden.at("greedy_token_ids_after_bos");
  const Written written = greedy(model, {golden.at("start_token")}, expected.size());
  std::string problem = compare_ids(written.ids, expected);
  if (problem.empty()) problem = compare_logits(written.logits, golden.at("logits_after_bos_first16"));
  if (!problem.empty()) return problem;
  std::ifstream in(folder + "/expected_greedy.txt");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const std::vector<int32_t> ids(written.ids.begin(), written.ids.end());
  const std::string decoded = load_tokenizer(folder)->decode(ids);
  return text.starts_with(decoded) || decoded.starts_with(text)
             ? ""
             : "expected the text '" + text + "', got '" + decoded + "'";
}

}  // namespace

bool is_real_model(const std::string& path) {
  const fs::path file(path);
  if (file.filename() == "partials.safetensors") return true;
  if (file.filename() != "golden.json") return false;
  const Json json = json_of(file);
  if (!json.is_object()) return false;
  return json.contains("greedy_token_ids_after_bos") ||
         (json.contains("cases") && !json["cases"].empty() && json["cases"][0].contains("greedy_ids"));
}

std::string check_real_model(const std::string& path) {
  if (fs::path(path).filename() == "partials.safetensors") return check_nano_sort(path);
  const std::string folder = fs::path(path).parent_path();
  const Json golden = json_of(path);
  const LoadedModel loaded = load_any_model(folder);
  const auto* model = dynamic_cast<const LanguageModel*>(loaded.model.get());
  require<FormatError>(model != nullptr, folder, ": expected a language model");
  if (golden.contains("cases")) return check_cases(*model, golden["cases"]);
  return check_story(*model, golden, folder);
}

}  // namespace attend::golden
