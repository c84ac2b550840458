#include <algorithm>
#include <cmath>

#include "attend/autograd/autograd.h"
#include "attend/data/batches.h"
#include "attend/generate/translate.h"
#include "attend/text/bleu.h"
#include "attend/text/chrf.h"
#include "attend/text/utf8.h"
#include "text/framing.h"
#include "train/broadcast.h"
#include "train/epochs.h"
#include "train/objectives.h"

namespace attend {
namespace {

/// Translation: predicts each target token from the source and the target tokens before it.
class PairObjective final : public Objective {
 public:
  PairObjective(const PairModel& model, const Dataset& data, const TrainingOptions& options)
      : model_(model),
        data_(data),
        smoothing_(options.label_smoothing),
        training_(data.training, data.training_examples, pair_options(options, Part::training)),
        validation_(data.validation, data.validation_examples, pair_options(options, Part::validation)) {}

  int64_t batches_per_epoch() const override { return training_.plan().batches(); }
  int64_t left_out() const override { return training_.plan().left_out(); }

  MicroBatch batch(int64_t index) const override {
    const PairBatch batch =
        pair_batch(data_.training, training_.batch(index), data_.tokenizer->special(), batch_padding(model_));
    const int64_t words = model_.vocab_size();
    return {.tokens = batch.target_tokens,
            .read = batch.source_tokens + batch.target_tokens,
            .counted = batch.target_tokens,
            .inputs = {{batch.source, words},
                       {batch.source_lengths, batch.source.dim(1) + 1},
                       {batch.target, words},
                       {batch.labels, words, true}},
            .loss = [this](const std::vector<Tensor>& inputs, const ForwardPass& pass) {
              return loss({.source = inputs[0], .source_lengths = inputs[1], .target = inputs[2]}, inputs[3],
                          {.label_smoothing = smoothing_}, pass);
            }};
  }

  Evaluation evaluate(bool text) const override {
    const NoGrad scope;
    Evaluation result;
    const auto one_batch = [&](int64_t i) -> std::vector<double> {
      const PairBatch batch = pair_batch(data_.validation, validation_.batch(i), data_.tokenizer->special());
      const PairInputs inputs{.source = batch.source, .source_lengths = batch.source_lengths, .target = batch.target};
      const auto tokens = static_cast<double>(batch.target_tokens);
      return {loss(inputs, batch.labels, {}, {}).item() * tokens, tokens};
    };
    const std::vector<double> values = divided(validation_.plan().batches(), 2, one_batch);
    for (size_t i = 0; i < values.size(); i += 2) {
      result.loss += values[i];
      result.tokens += static_cast<int64_t>(values[i + 1]);
    }
    result.loss /= static_cast<double>(result.tokens);
    if (text && std::isfinite(result.loss)) write_and_compare(result);
    return result;
  }

  std::vector<Sample> samples(int64_t count) const override {
    std::vector<Sample> result;
    std::vector<std::string> sources;
    for (const Example& example : data_.samples) {
      if (std::ssize(result) == count) break;
      result.push_back({example.source, example.target, ""});
      sources.push_back(example.source);
    }
    const std::vector<std::string> outputs = written(sources);
    for (size_t i = 0; i < result.size(); ++i) result[i].output = outputs[i];
    return result;
  }

 private:
  /// Some models put a token before both texts, which takes one position.
  BatchOptions pair_options(const TrainingOptions& options, Part part) const {
    BatchOptions result = batch_options(model_, options, part);
    result.max_length -= pair_frame(data_.tokenizer->special()).size() - 1;
    return result;
  }

  Tensor loss(const PairInputs& inputs, const Tensor& labels, LossOptions options, const ForwardPass& pass) const {
    return model_.head().loss(model_.hidden(inputs, pass), labels, options);
  }

  std::vector<std::string> written(const std::vector<std::string>& sources) const {
    std::vector<std::string> outputs, read;
    for (const std::string& source : sources) read.push_back(data_.prefix + source);
    for (const TranslatedLine& line : translate(model_, *data_.tokenizer, read)) {
      outputs.push_back(line.best[0].text);
    }
    return outputs;
  }

  void write_and_compare(Evaluation& result) const {
    std::vector<std::string> sources, references;
    for (const Example& example : data_.samples) {
      sources.push_back(example.source);
      references.push_back(example.target);
    }
    const std::vector<std::string> outputs = divided_range(std::ssize(sources), [&](int64_t begin, int64_t end) {
      return written({sources.begin() + begin, sources.begin() + end});
    });
    if (data_.lowercase) std::ranges::transform(references, references.begin(), lower_case);
    const std::vector<std::vector<std::string>> all{references};
    result.bleu = corpus_bleu(outputs, all, {.tokenizer = usual_bleu_tokenizer(references)}).score;
    result.chrf = corpus_chrf(outputs, all);
  }

  const PairModel& model_;
  const Dataset& data_;
  double smoothing_;
  Epochs training_, validation_;
};

}  // namespace

std::unique_ptr<Objective> pair_objective(const PairModel& model, const Dataset& data, const TrainingOptions& options) {
  return std::make_unique<PairObjective>(model, data, options);
}

}  // namespace attend
