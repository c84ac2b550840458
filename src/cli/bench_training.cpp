#include <map>

#include "attend/models/gpt.h"
#include "attend/models/transformer_model.h"
#include "attend/ops/precision.h"
#include "attend/ops/shape.h"
#include "attend/tensor/creation.h"
#include "cli/bench_workload.h"
#include "train/training_step.h"

// Whole training steps: loss, backward, clipping and update, on arbitrary token ids.
namespace attend::cli {
namespace {

Tensor made_up_ids(const Shape& shape, int64_t words, uint64_t seed) {
  std::vector<int64_t> ids(static_cast<size_t>(shape.numel()));
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = philox(seed, i, 0)[0] % words;
  return tensor(ids, shape);
}

/// A model and its optimizer. Each precision has its own captured training step.
template <class ModelType>
struct Training {
  explicit Training(std::unique_ptr<ModelType> trained) : model(std::move(trained)) {}
  std::unique_ptr<ModelType> model;
  std::vector<NamedTensor> parameters = model->parameters();
  Updater updater{parameters, {.optimizer = OptimizerKind::adamw, .weight_decay = 0.01}};
  std::map<Precision, TrainingStep> steps{};
  Rng rng{2};

  /// Runs the step of one batch, as `attend train` does, and returns its loss.
  Results step(const MicroBatch& batch, Precision precision = Precision::f32) {
    const TrainingStepOptions options{.precision = precision, .max_norm = 1};
    TrainingStep& runner = steps.try_emplace(precision, parameters, updater, options).first->second;
    return {select(runner.run({batch}, 1e-4, rng), 0, 0)};
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
            auto training = std::make_shared<Training<Gpt>>(on_bench_device(Gpt::create(config, rng)));
            const Tensor ids = made_up_ids({kBatch.rows, kBatch.length}, config.vocab_size, 1);
            const Tensor labels = made_up_ids({kBatch.rows, kBatch.length}, config.vocab_size, 2);
            const MicroBatch batch{
                .tokens = ids.numel(),
                .inputs = {{ids, config.vocab_size}, {labels, config.vocab_size}},
                .loss = [model = training->model.get()](const std::vector<Tensor>& inputs, const ForwardPass& pass) {
                  return model->head().loss(model->hidden(inputs[0], pass), inputs[1]);
                }};
            const auto step = [training, batch](Precision wanted) { return training->step(batch, wanted); };
            Prepared prepared;
            prepared.run = [step, precision] { return step(precision); };
            prepared.baseline = [step] { return step(Precision::f32); };
            prepared.operations = training_operations(training->parameters, kBatch);
            return prepared;
          }};
}

struct PairTraining {
  std::string name;
  TransformerModelConfig config;
  Batch batch;
  Precision precision = Precision::f32;
  bool slow = false;
};

/// A translation model. Every fourth sentence is one token shorter, so that there is padding.
Workload pair_workload(const PairTraining& given) {
  const Batch batch = given.batch;
  const int64_t shorter = (batch.rows + 3) / 4;
  return {.name = given.name,
          .tokens = batch.rows * batch.length - shorter,
          .precision = given.precision,
          .slow = given.slow,
          .prepare = [given, batch] {
            Rng rng{1};
            auto training = std::make_shared<Training<TransformerModel>>(
                on_bench_device(TransformerModel::create(given.config, rng)));
            const int64_t vocab = given.config.vocab_size;
            const Shape shape{batch.rows, batch.length};
            std::vector<int64_t> lengths, labels = made_up_ids(shape, vocab, 3).to_vector<int64_t>();
            for (int64_t i = 0; i < batch.rows; ++i) {
              lengths.push_back(batch.length - (i % 4 == 0 ? 1 : 0));
              for (int64_t j = lengths.back(); j < batch.length; ++j) {
                labels[static_cast<size_t>(i * batch.length + j)] = LossOptions{}.ignore_index;
              }
            }
            const MicroBatch step{
                .tokens = shape.numel(),
                .inputs = {{made_up_ids(shape, vocab, 1), vocab},
                           {tensor(lengths, {batch.rows}), batch.length + 1},
                           {made_up_ids(shape, vocab, 2), vocab},
                           {tensor(labels, shape), vocab, true}},
                .loss = [model = training->model.get()](const std::vector<Tensor>& inputs, const ForwardPass& pass) {
                  const Tensor hidden = model->hidden({inputs[0], inputs[1], inputs[2]}, pass);
                  return model->head().loss(hidden, inputs[3], {.label_smoothing = 0.1});
                }};
            Prepared prepared;
            prepared.run = [training, step, precision = given.precision] { return training->step(step, precision); };
            prepared.operations = training_operations(training->parameters, batch);
            return prepared;
          }};
}

/// The tiny translation model on sentences of about 15 tokens, as many as fit a batch of 4096 tokens.
PairTraining tiny(std::string name, Precision precision) {
  return {
      .name = std::move(name),
      .config = {.vocab_size = 10000, .dim = 128, .heads = 4, .ffn_dim = 256, .encoder_layers = 4, .decoder_layers = 4},
      .batch = {273, 15},
      .precision = precision};
}

/// A language model in bf16, with attention's operations counted: two products of each pair of visible tokens.
Workload language_workload(const char* name, const GptConfig& config, const Batch& batch) {
  return {.name = name,
          .tokens = batch.rows * batch.length,
          .precision = Precision::bf16,
          .slow = true,
          .prepare = [config, batch] {
            Rng rng{1};
            auto training = std::make_shared<Training<Gpt>>(on_bench_device(Gpt::create(config, rng)));
            const Shape shape{batch.rows, batch.length};
            const MicroBatch step{
                .tokens = shape.numel(),
                .inputs = {{made_up_ids(shape, config.vocab_size, 1), config.vocab_size},
                           {made_up_ids(shape, config.vocab_size, 2), config.vocab_size}},
                .loss = [model = training->model.get()](const std::vector<Tensor>& inputs, const ForwardPass& pass) {
                  return model->head().loss(model->hidden(inputs[0], pass), inputs[1]);
                }};
            Prepared prepared;
            prepared.run = [training, step] { return training->step(step, Precision::bf16); };
            const auto pairs = static_cast<double>(batch.rows * batch.length * batch.length) / 2;
            prepared.operations = training_operations(training->parameters, batch) +
                                  3.5 * 4 * static_cast<double>(config.layers * config.dim) * pairs;
            return prepared;
          }};
}

}  // namespace

std::vector<Workload> training_workloads() {
  std::vector<Workload> result{pair_workload(tiny("train_transformer", Precision::f32)),
                               gpt2_workload("train_gpt2", Precision::f32)};
  if (has_bf16()) result.push_back(gpt2_workload("train_gpt2_bf16", Precision::bf16));
  return result;
}

/// The training lines of docs/gpu.md.
std::vector<Workload> gpu_training_workloads() {
  const GptConfig gpt2{.vocab_size = 50304, .context = 1024, .dim = 768, .heads = 12, .layers = 12, .dropout = 0};
  const GptConfig characters{
      .vocab_size = 65, .context = 256, .dim = 384, .heads = 6, .layers = 6, .bias = false, .dropout = 0};
  PairTraining base{
      .name = "train_base_128x64_bf16",
      .config =
          {.vocab_size = 32000, .dim = 512, .heads = 8, .ffn_dim = 2048, .encoder_layers = 6, .decoder_layers = 6},
      .batch = {128, 64},
      .precision = Precision::bf16,
      .slow = true};
  return {language_workload("train_gpt2_32x1024_bf16", gpt2, {32, 1024}),
          language_workload("train_characters_64x256_bf16", characters, {64, 256}), pair_workload(base),
          pair_workload(tiny("train_tiny_273x15_bf16", Precision::bf16))};
}

}  // namespace attend::cli
