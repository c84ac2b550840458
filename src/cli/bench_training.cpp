#include "attend/autograd/autograd.h"
#include "attend/models/gpt.h"
#include "attend/models/transformer_model.h"
#include "attend/ops/precision.h"
#include "attend/optim/adam.h"
#include "attend/optim/clip.h"
#include "attend/tensor/creation.h"
#include "cli/bench_workload.h"

// Whole training steps: loss, backward, clipping and update, on arbitrary token ids.
namespace attend::cli {
namespace {

Tensor made_up_ids(const Shape& shape, int64_t words, uint64_t seed) {
  std::vector<int64_t> ids(static_cast<size_t>(shape.numel()));
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = philox(seed, i, 0)[0] % words;
  return tensor(ids, shape);
}

/// A model and its optimiser.
template <class ModelType>
struct Training {
  std::unique_ptr<ModelType> model;
  std::vector<NamedTensor> parameters = model->parameters();
  Adam optimiser = adamw(parameters, {.lr = 1e-4, .weight_decay = 0.01});
  Rng rng{2};

  void step(const Tensor& loss) {
    backward(loss);
    optimiser.step({squared_grad_norm(parameters), 1});
    for (const auto& [name, parameter] : parameters) zero_grad(parameter);
  }
};

struct Batch {
  int64_t rows, length;
};

/// Two operations per parameter and token in the forward pass, four in the backward pass.
double training_operations(const std::vector<NamedTensor>& parameters, const Batch& batch) {
  double count = 0;
  for (const auto& [name, parameter] : parameters) count += static_cast<double>(parameter.numel());
  return 6 * count * static_cast<double>(batch.rows * batch.length);
}

/// The smallest GPT-2: 124,439,808 parameters. For bf16 the share is its time divided by that of f32.
Workload gpt2_workload(const char* name, Precision precision) {
  static constexpr Batch kBatch{4, 256};
  return {.name = name,
          .bound = precision == Precision::f32 ? Bound::arithmetic : Bound::baseline,
          .tokens = kBatch.rows * kBatch.length,
          .slow = true,
          .prepare = [precision] {
            Rng rng{1};
            const GptConfig config{
                .vocab_size = 50257, .context = 1024, .dim = 768, .heads = 12, .layers = 12, .dropout = 0};
            auto training = std::make_shared<Training<Gpt>>(Training<Gpt>{on_bench_device(Gpt::create(config, rng))});
            const Tensor ids = made_up_ids({kBatch.rows, kBatch.length}, config.vocab_size, 1);
            const Tensor labels = made_up_ids({kBatch.rows, kBatch.length}, config.vocab_size, 2);
            const auto step = [training, ids, labels](Precision wanted) {
              const PrecisionScope scope(wanted, bench_device());
              const Gpt& model = *training->model;
              const Tensor loss = model.head().loss(model.hidden(ids), labels);
              training->step(loss);
              return Results{loss.detach()};
            };
            Prepared prepared;
            prepared.run = [step, precision] { return step(precision); };
            prepared.baseline = [step] { return step(Precision::f32); };
            prepared.operations = training_operations(training->parameters, kBatch);
            return prepared;
          }};
}

/// The tiny translation model on sentences of about 15 tokens, as many as fit a batch of 4096 tokens.
Workload transformer_workload() {
  static constexpr Batch kBatch{273, 15};
  constexpr int64_t kVocab = 10000, kPadding = 1;  // every fourth sentence is shorter
  const int64_t shorter = (kBatch.rows + 3) / 4;
  return {
      .name = "train_transformer", .tokens = kBatch.rows * kBatch.length - shorter * kPadding, .prepare = [] {
        Rng rng{1};
        auto training = std::make_shared<
            Training<TransformerModel>>(Training<TransformerModel>{on_bench_device(TransformerModel::create(
            {.vocab_size = kVocab, .dim = 128, .heads = 4, .ffn_dim = 256, .encoder_layers = 4, .decoder_layers = 4},
            rng))});
        const Shape shape{kBatch.rows, kBatch.length};
        std::vector<int64_t> lengths, labels = made_up_ids(shape, kVocab, 3).to_vector<int64_t>();
        for (int64_t i = 0; i < kBatch.rows; ++i) {
          lengths.push_back(kBatch.length - (i % 4 == 0 ? kPadding : 0));
          for (int64_t j = lengths.back(); j < kBatch.length; ++j) {
            labels[static_cast<size_t>(i * kBatch.length + j)] = LossOptions{}.ignore_index;
          }
        }
        const PairInputs inputs{made_up_ids(shape, kVocab, 1), tensor(lengths, {kBatch.rows}),
                                made_up_ids(shape, kVocab, 2)};
        Prepared prepared;
        prepared.run = [training, inputs, target = tensor(labels, shape)] {
          const TransformerModel& model = *training->model;
          const Tensor hidden = model.hidden(inputs, {.rng = &training->rng});
          const Tensor loss = model.head().loss(hidden, target, {.label_smoothing = 0.1});
          training->step(loss);
          return Results{loss.detach()};
        };
        prepared.operations = training_operations(training->parameters, kBatch);
        return prepared;
      }};
}

}  // namespace

std::vector<Workload> training_workloads() {
  std::vector<Workload> result{transformer_workload(), gpt2_workload("train_gpt2", Precision::f32)};
  if (has_bf16()) result.push_back(gpt2_workload("train_gpt2_bf16", Precision::bf16));
  return result;
}

}  // namespace attend::cli
