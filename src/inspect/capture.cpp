#include "inspect/capture.h"

#include <algorithm>

#include "attend/base/error.h"
#include "generate/numbers.h"
#include "inspect/summaries.h"

namespace attend {

void add_side(Run& run, RunSide side, const RunOptions& options) {
  for (const AblatedToken& token : options.tokens) {
    if (token.side != std::ssize(run.sides)) continue;
    require<ShapeError>(token.index >= 0 && token.index < std::ssize(side.tokens), "ablation: there is no token ",
                        token.index, " in the ", side.name, "; it has ", side.tokens.size(), ", counted from 0");
  }
  run.sides.push_back(std::move(side));
}

void keep_seen(Run& run, Watcher& watcher, const RunOptions& options) {
  run.attention = watcher.take_attention();
  run.values = watcher.take_values();
  run.hidden_tokens = options.tokens;
  run.steer = options.steer;
  for (const AblatedToken& token : options.tokens) {
    require<ShapeError>(token.side >= 0 && token.side < std::ssize(run.sides), "ablation: there is no side ",
                        token.side, "; there are ", run.sides.size(), ", counted from 0");
  }
}

void describe_model(Run& run, const Model& model) {
  run.arithmetic = arithmetic_of(model);
  constexpr int64_t kLongest = 1 << 16;  // an output bias may be as long as a large vocabulary
  for (const auto& [name, tensor] : model.parameters()) {
    if (tensor.rank() != 1 || tensor.numel() > kLongest) continue;
    run.parameters.emplace_back(name, tensor.detach().clone());  // training may change the parameter later
  }
}

void require_numbers(const Tensor& computed) {
  for (const double value : computed.to_vector<double>()) require_number(value, "inspect");
}

RunOutput label_output(const std::vector<std::string>& labels, const Tensor& numbers, LabelScores scores) {
  RunOutput output;
  output.kind = RunOutput::Kind::labels;
  output.are_values = scores == LabelScores::values;
  const auto values = score_labels(numbers, scores).to_vector<double>(), logits = numbers.to_vector<double>();
  for (const double value : values) require_number(value, "inspect");
  for (size_t i = 0; i < labels.size(); ++i) output.labels.push_back({labels[i], values[i], logits[i]});
  std::ranges::stable_sort(output.labels, std::ranges::greater{}, &ShownLabel::score);
  return output;
}

void finish_run(Run& run, std::chrono::steady_clock::time_point start) {
  run.summaries = std::make_shared<HeadSummaries>();
  run.milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace attend
