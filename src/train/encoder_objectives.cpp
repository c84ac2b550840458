#include <algorithm>
#include <utility>

#include "attend/autograd/autograd.h"
#include "attend/base/error.h"
#include "attend/base/random.h"
#include "attend/data/windows.h"
#include "attend/models/setting_error.h"
#include "attend/ops/embedding.h"
#include "attend/ops/shape.h"
#include "attend/tensor/creation.h"
#include "train/broadcast.h"
#include "train/epochs.h"
#include "train/objectives.h"

namespace attend {
namespace {

/// The class with the largest logit in each row.
std::vector<int64_t> decisions(const Tensor& logits) {
  const auto values = logits.to_vector<float>();
  const auto width = static_cast<size_t>(logits.dim(1));
  std::vector<int64_t> result;
  for (size_t row = 0; row < values.size(); row += width) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(row);
    result.push_back(std::max_element(begin, begin + static_cast<std::ptrdiff_t>(width)) - begin);
  }
  return result;
}

/// Classification: one label per text.
class LabelObjective final : public Objective {
 public:
  LabelObjective(const EncoderModel& model, const Dataset& data, const TrainingOptions& options)
      : model_(model),
        data_(data),
        smoothing_(options.label_smoothing),
        training_(data.training, data.training_examples, batch_options(model, options, Part::training)),
        validation_(data.validation, data.validation_examples, batch_options(model, options, Part::validation)) {}

  int64_t batches_per_epoch() const override { return training_.plan().batches(); }

  MicroBatch batch(int64_t index) const override {
    const std::span<const int64_t> examples = training_.batch(index);
    const ClassBatch batch = class_batch(data_.training, examples, data_.tokenizer->special(), batch_padding(model_));
    return {.tokens = std::ssize(examples),
            .read = batch.tokens,
            .counted = batch.tokens,
            .inputs = {{batch.ids, model_.vocab_size()},
                       {batch.lengths, batch.ids.dim(1) + 1},
                       {batch.labels, std::ssize(model_.labels()), true}},
            .loss = [this](const std::vector<Tensor>& inputs, const ForwardPass& pass) {
              return cross_entropy(model_.classify({inputs[0], inputs[1]}, pass), inputs[2],
                                   {.label_smoothing = smoothing_});
            }};
  }

  Evaluation evaluate(bool) const override {
    const NoGrad scope;
    Evaluation result;
    const auto one_batch = [&](int64_t i) -> std::vector<double> {
      const ClassBatch batch = class_batch(data_.validation, validation_.batch(i), data_.tokenizer->special());
      const Tensor logits = model_.classify({batch.ids, batch.lengths});
      const auto rows = static_cast<double>(logits.dim(0));
      const auto expected = batch.labels.to_vector<int64_t>(), chosen = decisions(logits);
      double right = 0;
      for (size_t row = 0; row < chosen.size(); ++row) right += chosen[row] == expected[row];
      return {cross_entropy(logits, batch.labels).item() * rows, rows, right};
    };
    const std::vector<double> values = divided(validation_.plan().batches(), 3, one_batch);
    double right = 0;
    for (size_t i = 0; i < values.size(); i += 3) {
      result.loss += values[i];
      result.tokens += static_cast<int64_t>(values[i + 1]);
      right += values[i + 2];
    }
    result.loss /= static_cast<double>(result.tokens);
    result.accuracy = right / static_cast<double>(result.tokens);
    return result;
  }

  std::vector<Sample> samples(int64_t count) const override {
    const NoGrad scope;
    std::vector<Sample> result;
    for (size_t i = 0; i < data_.samples.size() && i < data_.validation_examples.size(); ++i) {
      if (std::ssize(result) == count) break;
      const ClassBatch batch =
          class_batch(data_.validation, std::span(data_.validation_examples).subspan(i, 1), data_.tokenizer->special());
      const int64_t label = decisions(model_.classify({batch.ids, batch.lengths}))[0];
      result.push_back({data_.samples[i].source, data_.samples[i].target, data_.labels[static_cast<size_t>(label)]});
    }
    return result;
  }

 private:
  const EncoderModel& model_;
  const Dataset& data_;
  double smoothing_;
  Epochs training_, validation_;
};

/// Masked language modelling (Devlin et al. 2019 §3.1). Of the chosen tokens, 80 % become the mask token, 10 % a random
/// token, and 10 % stay. The model predicts all of them.
class MaskedObjective final : public Objective {
 public:
  MaskedObjective(const EncoderModel& model, const Dataset& data, const TrainingOptions& options)
      : model_(model),
        data_(data),
        share_(options.masked),
        seed_(static_cast<uint64_t>(options.seed)),
        training_(data.training, window_options(model, data, options, Part::training)),
        validation_(data.validation, window_options(model, data, options, Part::validation)),
        window_tokens_(std::max<int64_t>(options.batch, 1) * model.context()) {
    require<Error>(data.tokenizer->special().mask >= 0,
                   "masked language modelling needs a tokenizer with a mask token");
    require<SettingError>(share_ > 0, "'masked' must be above 0 for masked language modelling, got 0");
  }

  int64_t batches_per_epoch() const override { return std::max<int64_t>(1, training_.tokens() / window_tokens_); }

  MicroBatch batch(int64_t index) const override {
    const Masked masked = mask(training_.window(index), static_cast<uint64_t>(index));
    const int64_t read = masked.ids.numel(), words = model_.vocab_size();
    MicroBatch batch{.tokens = masked.count, .read = read, .counted = read, .inputs = {{masked.ids, words}}};
    if (model_.device() == kCpu) {
      batch.inputs.push_back({masked.labels, words, true});
      batch.loss = [this](const std::vector<Tensor>& inputs, const ForwardPass& pass) {
        return loss(inputs[0], inputs[1], pass);
      };
      return batch;
    }
    // On a GPU, ops cannot leave out ignored rows by themselves: their number must be known to the host.
    const auto [places, labels] = chosen_rows(masked);
    batch.inputs.push_back({places, read});
    batch.inputs.push_back({labels, words, true});
    batch.loss = [this](const std::vector<Tensor>& inputs, const ForwardPass& pass) {
      const Tensor hidden = model_.masked_hidden({.ids = inputs[0], .lengths = {}}, pass);
      const Tensor rows = reshape(hidden, {inputs[0].numel(), hidden.dim(-1)});
      return model_.masked_head().loss(embedding(inputs[1], rows), inputs[2]);
    };
    return batch;
  }

  Evaluation evaluate(bool) const override {
    const NoGrad scope;
    Evaluation result;
    const auto one_block = [&](int64_t i) -> std::vector<double> {
      const Masked masked = mask(validation_.block(i), ~static_cast<uint64_t>(i));
      const auto count = static_cast<double>(masked.count);
      return {loss(masked.ids, masked.labels, {}).item() * count, count};
    };
    const std::vector<double> values = divided(std::min<int64_t>(validation_.blocks(), 50), 2, one_block);
    for (size_t i = 0; i < values.size(); i += 2) {
      result.loss += values[i];
      result.tokens += static_cast<int64_t>(values[i + 1]);
    }
    result.loss /= static_cast<double>(std::max<int64_t>(result.tokens, 1));
    return result;
  }

  std::vector<Sample> samples(int64_t) const override { return {}; }

 private:
  struct Masked {
    Tensor ids, labels;
    int64_t count = 0;
  };

  Masked mask(const TextBatch& batch, uint64_t number) const {
    std::vector<int64_t> words = batch.ids.to_vector<int64_t>(), labels(words.size(), -100);
    const std::vector<int64_t> next = batch.labels.to_vector<int64_t>();
    const auto width = static_cast<size_t>(batch.ids.dim(1));
    Masked result;
    for (size_t i = 0; i < words.size(); ++i) {
      if (i % width > 0 && next[i - 1] == -100) continue;  // beyond the end of the text
      const auto random = philox(seed_ ^ 0x6d61736b, i, number);
      if (uniform_from_bits(random[0]) >= share_) continue;
      labels[i] = words[i];
      ++result.count;
      const float what = uniform_from_bits(random[1]);
      if (what < 0.8f) {
        words[i] = data_.tokenizer->special().mask;
      } else if (what < 0.9f) {
        words[i] = static_cast<int64_t>(random[2] % static_cast<uint64_t>(data_.tokenizer->size()));
      }
    }
    if (result.count == 0) {  // none was chosen, as may happen in a small batch: mask the first
      labels[0] = std::exchange(words[0], data_.tokenizer->special().mask);
      result.count = 1;
    }
    result.ids = tensor<int64_t>(words, batch.ids.shape());
    result.labels = tensor<int64_t>(labels, batch.ids.shape());
    return result;
  }

  /// The rows that are predicted and their labels. Their number is rounded up with ignored labels.
  static std::pair<Tensor, Tensor> chosen_rows(const Masked& masked) {
    std::vector<int64_t> places, labels;
    const auto all = masked.labels.data<const int64_t>();
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i] == -100) continue;
      places.push_back(static_cast<int64_t>(i));
      labels.push_back(all[i]);
    }
    const int64_t count = rounded_rows((std::ssize(places) + 31) / 32 * 32);
    places.resize(static_cast<size_t>(count), 0);
    labels.resize(static_cast<size_t>(count), -100);
    return {tensor(places, {count}), tensor(labels, {count})};
  }

  Tensor loss(const Tensor& ids, const Tensor& labels, const ForwardPass& pass) const {
    return model_.masked_head().loss(model_.masked_hidden({.ids = ids, .lengths = {}}, pass), labels);
  }

  const EncoderModel& model_;
  const Dataset& data_;
  double share_;
  uint64_t seed_;
  TextWindows training_, validation_;
  int64_t window_tokens_;
};

}  // namespace

std::unique_ptr<Objective> label_objective(const EncoderModel& model, const Dataset& data,
                                           const TrainingOptions& options) {
  return std::make_unique<LabelObjective>(model, data, options);
}

std::unique_ptr<Objective> masked_objective(const EncoderModel& model, const Dataset& data,
                                            const TrainingOptions& options) {
  return std::make_unique<MaskedObjective>(model, data, options);
}

}  // namespace attend
