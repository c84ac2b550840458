#include "train/memory_estimate.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <sstream>

#include "attend/io/json.h"

namespace attend {
namespace {

/// The sizes that determine activations. Absent settings are 0.
struct Sizes {
  double dim = 0, ffn = 0, queries = 0, keys = 0;  // widths; queries and keys over all heads
  double layers = 0, decoder_layers = 0;
  double vocab = 0;
  bool gated = false, has_dropout = false, is_rotary = false;
};

Sizes sizes_of(const Model& model) {
  const Json config = Json::parse(model.config());
  const auto number = [&](const char* name) { return static_cast<double>(config.value(name, int64_t{0})); };
  const auto flag = [&](const char* name) { return config.value(name, false); };
  Sizes sizes{.dim = static_cast<double>(model.dim()), .vocab = static_cast<double>(model.vocab_size())};
  const double heads = std::max(number("heads"), 1.0),
               key_heads = number("key_heads") > 0 ? number("key_heads") : heads;
  const double head_dim = number("head_dim") > 0 ? number("head_dim") : sizes.dim / heads;
  sizes.queries = heads * head_dim;
  sizes.keys = key_heads * head_dim;
  sizes.ffn = number("ffn_dim") > 0 ? number("ffn_dim") : 4 * sizes.dim;
  sizes.layers = number("layers") > 0 ? number("layers") : number("encoder_layers");
  sizes.decoder_layers = number("decoder_layers");
  sizes.gated = flag("gated");
  sizes.has_dropout = config.value("dropout", 0.0) > 0;
  sizes.is_rotary = model.position_kind() == Positions::rotary;
  return sizes;
}

/// Values per token that attention keeps for the backward pass: the normed input, queries, keys and values, the output,
/// and the residual sum.
double attention_values(const Sizes& s) {
  const double rotated = s.is_rotary ? s.queries + s.keys : 0;
  return 2 * s.dim + 2 * s.queries + 2 * s.keys + rotated;
}

/// The normed input, both sides of the activation, the residual sum. Dropout keeps a copy of the inner vector.
double feed_forward_values(const Sizes& s) { return 2 * s.dim + s.ffn * ((s.gated ? 4 : 2) + (s.has_dropout ? 1 : 0)); }

/// The gradients that one layer's backward pass holds at the same time.
double backward_values(const Sizes& s) { return 2 * s.ffn + 3 * s.dim; }

/// Bytes of the output layer: its input and the gradient of it, the logits of one chunk twice, and the gradient of the
/// output matrix, which is computed in the forward pass. See ops/linear_cross_entropy.cpp for the chunks.
double head_bytes(const Sizes& s, double positions, Device device) {
  const double chunk =
      device == kCpu ? std::clamp((1 << 25) / s.vocab, 64.0, 512.0) : std::clamp((1 << 28) / s.vocab, 1024.0, 32768.0);
  return 4 * (2 * positions * s.dim + 2 * std::min(chunk, positions) * s.vocab + s.vocab * s.dim);
}

/// Transformers of all families: each layer keeps its values, or with --recompute only its input.
double transformer_bytes(const Model& model, const TrainingOptions& options, const BatchShape& batch, Device device) {
  const Sizes s = sizes_of(model);
  const double positions = static_cast<double>(batch.rows * batch.length);
  const double value = device != kCpu && options.precision == Precision::bf16 ? 2 : 4;
  const double encoder_layer = attention_values(s) + feed_forward_values(s);
  const double decoder_layer = encoder_layer + attention_values(s);
  const double embedded = (s.has_dropout ? 2 : 1) * s.dim * (s.decoder_layers > 0 ? 2 : 1);
  double kept = s.layers * encoder_layer + s.decoder_layers * decoder_layer;
  if (options.recompute) {
    kept = (s.layers + s.decoder_layers) * s.dim + (s.decoder_layers > 0 ? decoder_layer : encoder_layer);
  }
  const bool has_head = model.kind() != ModelKind::classification;
  return value * positions * (embedded + kept + backward_values(s)) + (has_head ? head_bytes(s, positions, device) : 0);
}

/// Recurrent models keep every step of every layer: gates from the input and from the state, the cell's intermediate
/// values, and the state. Additive attention also keeps a vector for each pair of source and target token.
double recurrent_bytes(const Model& model, const BatchShape& batch, Device device) {
  const Json config = Json::parse(model.config());
  Sizes s = sizes_of(model);
  const auto state = static_cast<double>(config.value("state_dim", int64_t{0}));
  const std::string cell = config.value("cell", std::string("gru"));
  const double gates = cell == "lstm" ? 4 : cell == "gru" ? 3 : 1;
  const double step = state * (2 * gates + (gates > 1 ? 4 * gates : 2));
  const double positions = static_cast<double>(batch.rows * batch.length);
  const bool attends = model.architecture() == "rnn-attention";
  double values = 2 * s.layers * step + 4 * s.dim + 2 * state;
  if (attends) values += 4 * state + 2 * s.dim;
  double bytes = 4 * positions * values;
  if (attends && config.value("score", std::string("additive")) == "additive") {
    bytes += 4 * 2 * positions * static_cast<double>(batch.length) * state;
  }
  return bytes + head_bytes(s, positions, device);
}

std::string size_text(double bytes) {
  char text[32];
  const double gib = bytes / (1 << 30), mib = bytes / (1 << 20);
  gib >= 1 ? std::snprintf(text, sizeof text, "%.1f GiB", gib) : std::snprintf(text, sizeof text, "%.1f MiB", mib);
  return text;
}

}  // namespace

BatchShape largest_batch(const Model& model, const Dataset& data, const TrainingOptions& options) {
  const int64_t most_rows = options.batch > 0 ? options.batch : INT64_MAX;
  if (data.kind == CorpusKind::text) {
    const int64_t divided = std::max<int64_t>(options.context_parallel, 1);
    return {std::max<int64_t>(options.batch, 1), (model.context() + divided - 1) / divided};
  }
  const int64_t columns = data.kind == CorpusKind::labelled ? 1 : 2;
  int64_t longest = 1;
  for (const int64_t example : data.training_examples) {
    for (int64_t column = 0; column < columns; ++column) {
      const int64_t length = data.training.length(example, column) + columns - 1;
      if (length <= model.context()) longest = std::max(longest, length);
    }
  }
  const int64_t rows = std::max<int64_t>(1, options.batch_tokens / longest);
  return {std::min({rows, most_rows, std::max<int64_t>(1, std::ssize(data.training_examples))}), longest};
}

namespace {

/// The number of gradients that exist at once: that of the batch, and the sums of the batches before it. Each process
/// also holds the sums over all processes.
double gradient_sets(const TrainingOptions& options, int processes) {
  const int64_t batches = options.accumulate * options.context_parallel;
  const int64_t own = std::max<int64_t>(1, batches / processes);
  const double partial = batches == 1 ? 0
                         : options.reduce == GradientOrder::fast
                             ? 1
                             : std::bit_width(static_cast<uint64_t>(own)) - (own > 1 ? 0 : 1);
  return 1 + partial + (processes > 1 ? 1 : 0);
}

}  // namespace

MemoryEstimate estimate_memory(const Model& model, const TrainingOptions& options, const BatchShape& batch,
                               Device device, int processes) {
  double count = 0;
  for (const auto& [name, parameter] : model.parameters()) count += static_cast<double>(parameter.numel());
  const bool has_copies = device != kCpu && options.precision == Precision::bf16;  // bf16 copies of the weights
  return {.weights = count * (has_copies ? 6 : 4),
          .optimizer = count * 4 * (options.optimizer == OptimizerKind::sgd ? 1 : 2) /
                       (options.shard == ShardedState::optimizer ? processes : 1),
          .gradients = count * 4 * gradient_sets(options, processes),
          .activations = model.architecture().starts_with("rnn") ? recurrent_bytes(model, batch, device)
                                                                 : transformer_bytes(model, options, batch, device)};
}

std::string memory_text(const MemoryEstimate& estimate, size_t free_bytes, Device device) {
  std::ostringstream text;
  text << "about " << size_text(estimate.total()) << " (weights " << size_text(estimate.weights) << ", gradients "
       << size_text(estimate.gradients) << ", optimizer " << size_text(estimate.optimizer) << ", activations "
       << size_text(estimate.activations) << ") of " << size_text(static_cast<double>(free_bytes)) << " free on "
       << device;
  return text.str();
}

void require_memory(const MemoryEstimate& estimate, size_t free_bytes, const Model& model,
                    const TrainingOptions& options, Device device) {
  if (estimate.least() <= static_cast<double>(free_bytes)) return;
  const bool is_recurrent = model.architecture().starts_with("rnn");
  std::string advice = model.kind() == ModelKind::language ? "reduce --batch" : "reduce --batch-tokens";
  advice += " (and raise --accumulate as much)";
  if (!options.recompute && !is_recurrent) advice += ", add --recompute";
  if (device != kCpu && options.precision == Precision::f32) advice += ", use --precision bf16";
  const double fixed = estimate.weights + estimate.gradients + estimate.optimizer;
  if (fixed > static_cast<double>(free_bytes)) advice = "train a smaller model";
  throw_error<DeviceError>("not enough memory: the training needs ", memory_text(estimate, free_bytes, device), "; ",
                           advice);
}

}  // namespace attend
