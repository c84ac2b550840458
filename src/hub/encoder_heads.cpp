#include "hub/encoder_heads.h"

#include "attend/base/error.h"
#include "io/printable.h"

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
                       " must be a matrix with one row per label, got shape ", shape);
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
  const HubConfig cross_encoder = c.section("sentence_transformers");
  cross_encoder.ignore({"version"});
  // Before sentence-transformers 4 the second key said it.
  const std::string activation =
      cross_encoder.text("activation_fn", c.text("sbert_ce_default_activation_function", ""));
  const bool is_known = activation.empty() || activation.ends_with(".Identity") || activation.ends_with(".Sigmoid");
  if (!is_known)
    c.refuse("scores by the function " + in_quotes(activation) + " are not supported; there are Identity and Sigmoid");
  if (problem == "regression" || activation.ends_with(".Identity")) return LabelScores::values;
  return labels == 1 || problem == "multi_label_classification" ? LabelScores::each : LabelScores::shares;
}

void expect_encoder(const HubConfig& config) {
  config.expect("is_decoder", false);
  config.expect("is_encoder_decoder", false);
}

void add_norm(NameMap& map, const HubFolder& folder, const std::string& theirs, const std::string& ours) {
  std::string first = theirs;
  if (const size_t place = first.find("{}"); place != std::string::npos) first.replace(place, 2, 1, '0');
  const bool is_old = has_tensor(folder, map.prefix, first + ".gamma");
  map.add(theirs + (is_old ? ".gamma" : ".weight"), ours + ".weight");
  map.add(theirs + (is_old ? ".beta" : ".bias"), ours + ".bias");
}

}  // namespace attend::hub
