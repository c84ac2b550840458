#include "model.h"

#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

namespace attend::golden {

ModelCase::ModelCase(const std::string& path)
    : folder_(std::filesystem::path(path).parent_path()),
      file_(SafetensorsFile::open(path)),
      loaded_(load_hub_model(folder_)) {
  loaded_.model->to(default_device());
}

std::string ModelCase::metadata(const std::string& key) const {
  const auto found = file_.metadata().find(key);
  if (found == file_.metadata().end()) return "";
  const auto json = nlohmann::json::parse(found->second, nullptr, false);
  return json.is_string() ? json.get<std::string>() : found->second;
}

Tensor ModelCase::tensor(const std::string& name) {
  read_.insert(name);
  return file_.tensor(name);
}

void ModelCase::expect_close(const std::string& name, const Tensor& ours, const Tensor& real) {
  double largest = 0;
  for (const double value : tensor(name).to_vector<double>()) largest = std::max(largest, std::abs(value));
  expect_within(name, ours, 1e-4 * largest, real);
}

void ModelCase::expect_weights(const std::string& name, const Tensor& ours) { expect_within(name, ours, 1e-5, {}); }

void ModelCase::expect_within(const std::string& name, const Tensor& ours, double tolerance, const Tensor& real) {
  const Tensor expected = tensor(name);
  require<FormatError>(ours.shape() == expected.shape(), name, ": expected shape ", expected.shape(), ", got ",
                       ours.shape());
  const auto a = ours.to_vector<double>(), b = expected.to_vector<double>();
  const auto counts = real ? real.to_vector<int64_t>() : std::vector<int64_t>{};
  const size_t width = counts.empty() ? 0 : a.size() / counts.size();
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (width > 0 && counts[i / width] == 0) continue;
    const double error = std::abs(a[i] - b[i]);
    if (!(error <= worst)) worst = error;  // keeps NaN
  }
  if (worst <= tolerance) return;
  std::ostringstream text;
  text << name << " is off by " << worst << ", allowed " << tolerance;
  problems_.push_back(text.str());
}

void ModelCase::expect_same(const std::string& what, const Tensor& a, const Tensor& b) {
  const auto x = a.to_vector<double>(), y = b.to_vector<double>();
  double largest = 0, worst = 0;
  for (size_t i = 0; i < y.size(); ++i) {
    largest = std::max(largest, std::abs(y[i]));
    if (!(std::abs(x[i] - y[i]) <= worst)) worst = std::abs(x[i] - y[i]);
  }
  if (!(worst <= 1e-4 * largest)) problems_.push_back(what + " is not the whole");
}

void ModelCase::expect_ids(const std::string& name, const std::vector<int64_t>& ours) {
  const auto expected = ids(name);
  if (ours == expected) return;
  const auto shown = [](const std::vector<int64_t>& list) { return nlohmann::json(list).dump(); };
  problems_.push_back(name + ": expected " + shown(expected) + ", got " + shown(ours));
}

std::string ModelCase::finish() const {
  for (const TensorInfo& info : file_.tensors()) {
    require<FormatError>(read_.contains(info.name), "nothing checks ", info.name);
  }
  if (problems_.empty()) return {};
  return problems_.size() == 1 ? problems_[0]
                               : problems_[0] + " (and " + std::to_string(problems_.size() - 1) + " more)";
}

std::string check_model(const std::string& path) {
  static const std::map<std::string, void (*)(ModelCase&)> kinds{{"causal_lm", check_causal_lm},
                                                                 {"encoder", check_encoder},
                                                                 {"image_classifier", check_image_classifier},
                                                                 {"seq2seq", check_seq2seq}};
  ModelCase reference(path);
  const std::string kind = reference.metadata("kind");
  const auto found = kinds.find(kind);
  if (found == kinds.end()) return "unknown kind '" + kind + "'";
  found->second(reference);
  return reference.finish();
}

}  // namespace attend::golden
