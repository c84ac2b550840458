#include <algorithm>

#include "attend/autograd/autograd.h"
#include "attend/data/windows.h"
#include "attend/generate/generate_text.h"
#include "train/broadcast.h"
#include "train/objectives.h"

namespace attend {
namespace {

constexpr int64_t kValidationTokens = 200000;  // enough for two significant digits of the loss

/// Language modelling: predicts each token from the tokens before it.
class LanguageObjective final : public Objective {
 public:
  LanguageObjective(const LanguageModel& model, const Dataset& data, const TrainingOptions& options)
      : model_(model),
        data_(data),
        smoothing_(options.label_smoothing),
        seed_(static_cast<uint64_t>(options.seed)),
        training_(data.training, window_options(model, data, options, Part::training)),
        validation_(data.validation, window_options(model, data, options, Part::validation)),
        window_tokens_(std::max<int64_t>(options.batch, 1) * model.context()) {}

  int64_t batches_per_epoch() const override { return std::max<int64_t>(1, training_.tokens() / window_tokens_); }

  MicroBatch batch(int64_t index) const override {
    TextBatch batch = training_.window(index);
    const int64_t words = model_.vocab_size();
    return {.tokens = batch.tokens,
            .read = batch.tokens,
            .counted = batch.tokens,
            .inputs = {{batch.ids, words}, {batch.labels, words, true}},
            .loss = [this](const std::vector<Tensor>& inputs, const ForwardPass& pass) {
              return loss(inputs[0], inputs[1], {.label_smoothing = smoothing_}, pass);
            }};
  }

  Evaluation evaluate(bool) const override {
    const NoGrad scope;
    Evaluation result;
    int64_t blocks = 0;
    while (blocks < validation_.blocks() && result.tokens < kValidationTokens) {
      result.tokens += validation_.block(blocks++).tokens;
    }
    const auto weighted_loss = [&](int64_t i) -> std::vector<double> {
      const TextBatch batch = validation_.block(i);
      return {loss(batch.ids, batch.labels, {}, {}).item() * static_cast<double>(batch.tokens)};
    };
    for (const double value : divided(blocks, 1, weighted_loss)) result.loss += value;
    result.loss /= static_cast<double>(result.tokens);
    return result;
  }

  std::vector<Sample> samples(int64_t count) const override {
    if (count == 0) return {};
    const std::vector<std::string> prompts{data_.by_line ? "" : "\n"};  // start at the beginning of a line
    const GenerateOptions options{.tokens = 80, .sampling = {.temperature = 0.8, .seed = seed_}, .goes_past_end = true};
    return {{"", "", generate_text(model_, *data_.tokenizer, prompts, options)[0].text}};
  }

 private:
  Tensor loss(const Tensor& ids, const Tensor& labels, LossOptions options, const ForwardPass& pass) const {
    return model_.head().loss(model_.hidden(ids, pass), labels, options);
  }

  const LanguageModel& model_;
  const Dataset& data_;
  double smoothing_;
  uint64_t seed_;
  TextWindows training_, validation_;
  int64_t window_tokens_;
};

}  // namespace

std::unique_ptr<Objective> language_objective(const LanguageModel& model, const Dataset& data,
                                              const TrainingOptions& options) {
  return std::make_unique<LanguageObjective>(model, data, options);
}

}  // namespace attend
