#include "hub/encoder_heads.h"

#include "attend/base/error.h"

namespace attend::hub {

bool has_tensor(const HubFolder& folder, const std::string& prefix, const std::string& name) {
  return folder.weights.contains(name) || folder.weights.contains(prefix + name);
}

void add_bare_tensor(NameMap& map, const std::string& theirs, const std::string& ours) {
  map.rules.push_back({.theirs = theirs, .ours = {ours}, .is_bare = true});
}

void add_bare(NameMap& map, const std::string& theirs, const std::string& ours) {
  for (const char* part : {".weight", ".bias"}) add_bare_tensor(map, theirs + part, ours + part);
}

std::vector<std::string> class_labels(const HubFolder& folder, const std::string& weight) {
  if (!folder.weights.contains(weight)) return {};
  const Shape& shape = folder.weights.shape(weight);
  require<FormatError>(shape.rank() == 2 && shape[0] <= kMostWidth, folder.weights.name(), ": ", weight,
                       " must be a matrix of labels, got shape ", shape);
  std::vector<std::string> labels = folder.config.labels();
  if (labels.empty()) {
    for (int64_t i = 0; i < shape[0]; ++i) labels.push_back("LABEL_" + std::to_string(i));
  }
  require<FormatError>(std::ssize(labels) == shape[0], folder.config.file(), ": 'id2label' names ", labels.size(),
                       " labels, but ", weight, " has ", shape[0]);
  return labels;
}

std::vector<std::string> text_labels(const HubFolder& folder, const std::string& weight) {
  const std::string architecture = folder.config.architecture();
  if (!architecture.empty() && !architecture.ends_with("ForSequenceClassification")) return {};
  return class_labels(folder, weight);
}

LabelScores label_scores(const HubFolder& folder, size_t labels) {
  const HubConfig& c = folder.config;
  const std::string problem = c.text("problem_type", "");
  if (problem == "regression") return LabelScores::values;
  if (c.has("sentence_transformers") && c.json()["sentence_transformers"].is_object()) {
    if (c.section("sentence_transformers").text("activation_fn", "").ends_with(".Identity")) return LabelScores::values;
  }
  return labels == 1 || problem == "multi_label_classification" ? LabelScores::each : LabelScores::shares;
}

void add_norm(NameMap& map, const HubFolder& folder, const std::string& theirs, const std::string& ours) {
  std::string first = theirs;
  if (const size_t place = first.find("{}"); place != std::string::npos) first.replace(place, 2, 1, '0');
  const bool is_old = has_tensor(folder, map.prefix, first + ".gamma");
  map.add(theirs + (is_old ? ".gamma" : ".weight"), ours + ".weight");
  map.add(theirs + (is_old ? ".beta" : ".bias"), ours + ".bias");
}

}  // namespace attend::hub
