#include "attend/models/rnn.h"

#include <algorithm>
#include <cmath>
#include <ranges>

#include "attend/autograd/autograd.h"
#include "attend/nn/cache.h"
#include "attend/nn/init.h"
#include "attend/nn/masks.h"
#include "attend/ops/activation.h"
#include "attend/ops/shape.h"
#include "attend/tensor/creation.h"
#include "models/position_table.h"
#include "models/settings_json.h"

namespace attend {
namespace {

/// The encoder's output.
struct Memory {
  Tensor states;     // [sentences, length, state_dim]
  Tensor projected;  // U h of additive scores
  Tensor mask;       // [sentences, length]; empty: all true
};

struct Encoded {
  Memory memory;
  RecurrentState state;  // initial state of the decoder
};

/// The bridge applied to the last state of a layer, with both directions concatenated.
Tensor bridged(const Rnn& model, const Tensor& last, size_t bridge, int64_t layer) {
  const int64_t directions = model.settings.bidirectional ? 2 : 1;
  std::vector<Tensor> parts;
  for (int64_t d = 0; d < directions; ++d) parts.push_back(select(last, 0, layer * directions + d));
  return tanh(model.bridges[bridge].forward(directions == 2 ? concat(parts, -1) : parts[0]));
}

Encoded encode(const Rnn& model, const Tensor& source, const Tensor& lengths, const ForwardPass& pass) {
  check_length("rnn", source.dim(1), model.settings.context);
  const ObservedPart part(pass.observer, "encoder");
  const Tensor x = drop(pass.show("tokens", model.embedding.forward(source)), model.settings.dropout, pass);
  const RecurrentResult read = model.encoder.forward({.x = x, .lengths = lengths}, pass);
  std::vector<Tensor> h, c;
  for (int64_t layer = 0; layer < model.settings.layers; ++layer) {
    const auto l = static_cast<size_t>(layer);
    h.push_back(bridged(model, read.state.h, l, layer));
    if (read.state.c) c.push_back(bridged(model, read.state.c, static_cast<size_t>(model.settings.layers) + l, layer));
  }
  Encoded result;
  result.state = {.h = stack(h, 0), .c = c.empty() ? Tensor{} : stack(c, 0)};
  if (model.look_back) {
    result.memory.states = drop(pass.show("states", read.output), model.settings.dropout, pass);
    if (model.additive) result.memory.projected = model.additive->project(result.memory.states);
    if (lengths) result.memory.mask = length_mask(lengths, source.dim(1));
  }
  return result;
}

/// One step of Bahdanau attention: the previous state attends to the memory, and the result is an input of the next
/// state. `rows` consecutive rows share the memory of a sentence.
struct Step {
  Tensor output, attended;  // [sentences · rows, state_dim]
  RecurrentState state;
};
Step additive_step(const Rnn& model, const Tensor& word, const RecurrentState& state, const Memory& memory,
                   const ForwardPass& pass) {
  const Tensor top = select(state.h, 0, model.settings.layers - 1);
  const Tensor queries = reshape(top, {memory.states.dim(0), -1, top.dim(1)});
  const ObservedPart part(pass.observer, "attention");
  const Tensor seen =
      model.additive->forward({.state = queries, .memory = memory.states, .mask = memory.mask}, pass, memory.projected)
          .output;
  const Tensor looked = reshape(seen, top.shape());
  RecurrentResult next = model.decoder.step(concat({word, looked}, -1), state, pass);
  return {next.output, looked, next.state};
}

/// Luong attention: all states are computed first, then each of them attends to the memory.
Tensor luong_attended(const Rnn& model, const Tensor& states, const Memory& memory, const ForwardPass& pass) {
  const ObservedPart part(pass.observer, "attention");
  return model.multiplicative->forward({.state = states, .memory = memory.states, .mask = memory.mask}, pass).output;
}

Tensor read_out(const Rnn& model, const std::vector<Tensor>& parts, const ForwardPass& pass) {
  return drop(tanh(model.readout.forward(concat(parts, -1))), model.settings.dropout, pass);
}

class RnnDecoding final : public Decoding {
 public:
  RnnDecoding(const Rnn& model, const Tensor& source, const Tensor& lengths)
      : model_(model), sentences_(source.dim(0)) {
    Encoded encoded = encode(model, source, lengths, {});
    memory_ = encoded.memory;
    state_ = encoded.state;
  }

  Tensor step(const Tensor& ids, const Tensor& lengths, const ForwardPass& pass) override {
    const NoGrad scope;
    require<ShapeError>(!lengths, "rnn: all rows of a target must have the same length");
    Tensor y;
    for (int64_t t = 0; t < ids.dim(1); ++t) y = one(model_.embedding.forward(attend::select(ids, 1, t)), pass);
    return model_.head().logits(y);
  }

  void select(std::span<const int64_t> order) override {
    state_ = selected(state_, order);
    std::vector<int64_t> sentences;
    for (size_t i = 0; i < order.size(); i += static_cast<size_t>(rows_)) sentences.push_back(order[i] / rows_);
    const bool moved =
        std::ssize(sentences) != sentences_ || !std::ranges::equal(sentences, std::views::iota(int64_t{0}, sentences_));
    sentences_ = std::ssize(sentences);
    if (!moved || !memory_.states) return;
    for (Tensor* part : {&memory_.states, &memory_.projected, &memory_.mask}) {
      if (*part) *part = select_rows(*part, sentences);
    }
  }

  void spread(int64_t rows) override {
    state_ = selected(state_, repeated_rows(sentences_ * rows_, rows));
    rows_ *= rows;
  }

  void join(Decoding& other) override {
    auto& added = dynamic_cast<RnnDecoding&>(other);
    require<ShapeError>(added.rows_ == rows_, "rnn: decodings of ", rows_, " and ", added.rows_,
                        " rows per sentence cannot be joined");
    const auto both = [](const Tensor& a, const Tensor& b) {
      return a ? contiguous(
                     transpose(join_rows(contiguous(transpose(a, 0, 1)), contiguous(transpose(b, 0, 1)), 1), 0, 1))
               : a;
    };
    state_ = {both(state_.h, added.state_.h), both(state_.c, added.state_.c)};
    if (memory_.states) {
      memory_.mask = join_rows(whole_mask(memory_), whole_mask(added.memory_), 1);
      memory_.states = join_rows(memory_.states, added.memory_.states, 1);
      if (memory_.projected) memory_.projected = join_rows(memory_.projected, added.memory_.projected, 1);
    }
    sentences_ += added.sentences_;
  }

 private:
  static RecurrentState selected(const RecurrentState& state, std::span<const int64_t> order) {
    const auto pick = [&](const Tensor& x) {
      return x ? contiguous(transpose(select_rows(transpose(x, 0, 1), order), 0, 1)) : x;
    };
    return {pick(state.h), pick(state.c)};
  }

  /// The mask of the memory, also where there is no padding.
  static Tensor whole_mask(const Memory& memory) {
    return memory.mask ? memory.mask : ones({memory.states.dim(0), memory.states.dim(1)}, {DType::boolean, kCpu});
  }

  Tensor one(const Tensor& word, const ForwardPass& pass) {
    if (model_.additive) {
      const Step step = additive_step(model_, word, state_, memory_, pass);
      state_ = step.state;
      return read_out(model_, {step.output, step.attended, word}, pass);
    }
    const RecurrentResult next = model_.decoder.step(word, state_, pass);
    state_ = next.state;
    if (!model_.look_back) return read_out(model_, {next.output, word}, pass);
    const Tensor queries = reshape(next.output, {sentences_, rows_, -1});
    const Tensor seen = reshape(luong_attended(model_, queries, memory_, pass), next.output.shape());
    return read_out(model_, {next.output, seen, word}, pass);
  }

  const Rnn& model_;
  int64_t rows_ = 1, sentences_;
  Memory memory_;
  RecurrentState state_;
};

}  // namespace

std::unique_ptr<Rnn> Rnn::create(const RnnConfig& config, bool look_back, Rng& rng) {
  const int64_t directions = config.bidirectional ? 2 : 1;
  require<ShapeError>(config.state_dim % directions == 0, "rnn: state_dim ", config.state_dim,
                      " is not divisible by the 2 directions of the encoder");
  auto model = std::make_unique<Rnn>();
  model->settings = config;
  model->look_back = look_back;
  model->embedding = Embedding::create(
      {.rows = config.vocab_size, .dim = config.dim, .deviation = 1 / std::sqrt(static_cast<double>(config.dim))}, rng);
  model->output_bias = constant_parameter({config.vocab_size}, 0);
  RecurrentConfig cells{.input = config.dim,
                        .state_dim = config.state_dim / directions,
                        .layers = config.layers,
                        .bidirectional = config.bidirectional,
                        .dropout = config.dropout,
                        .cell = config.cell};
  model->encoder = Recurrent::create(cells, rng);
  const bool additive = look_back && config.score == Score::additive;
  cells.input = config.dim + (additive ? config.state_dim : 0);
  cells.state_dim = config.state_dim;
  cells.bidirectional = false;
  model->decoder = Recurrent::create(cells, rng);
  const int64_t bridges = config.layers * (config.cell == CellKind::lstm ? 2 : 1);
  for (int64_t i = 0; i < bridges; ++i) {
    model->bridges.push_back(Linear::create({.in = config.state_dim, .out = config.state_dim}, rng));
  }
  if (additive) {
    model->additive = BahdanauAttention::create(
        {.state = config.state_dim, .memory = config.state_dim, .state_dim = config.state_dim}, rng);
  } else if (look_back) {
    model->multiplicative =
        LuongAttention::create({.state = config.state_dim,
                                .memory = config.state_dim,
                                .score = config.score == Score::dot ? LuongScore::dot : LuongScore::general},
                               rng);
  }
  model->readout = Linear::create({.in = config.state_dim * (look_back ? 2 : 1) + config.dim, .out = config.dim}, rng);
  return model;
}

std::string Rnn::config() const { return config_text(architecture(), settings); }

Tensor Rnn::hidden(const PairInputs& inputs, const ForwardPass& pass) const {
  const Encoded encoded = encode(*this, inputs.source, inputs.source_lengths, pass);
  const Tensor words =  // [batch, targets, dim]
      pass.show("words", drop(embedding.forward(inputs.target), settings.dropout, pass));
  if (!additive) {
    const Tensor states = pass.show("outputs", decoder.forward({.x = words, .state = encoded.state}, pass).output);
    if (!look_back) return pass.show("readout", read_out(*this, {states, words}, pass));
    const Tensor seen = pass.show("context", luong_attended(*this, states, encoded.memory, pass));
    return pass.show("readout", read_out(*this, {states, seen, words}, pass));
  }
  std::vector<Tensor> before, outputs, attended;
  RecurrentState state = encoded.state;
  for (int64_t t = 0; t < words.dim(1); ++t) {
    if (pass.observer) before.push_back(select(state.h, 0, settings.layers - 1));
    const Step step = additive_step(*this, select(words, 1, t), state, encoded.memory, pass);
    outputs.push_back(step.output);
    attended.push_back(step.attended);
    state = step.state;
  }
  if (pass.observer) pass.show("states", stack(before, 1));
  const Tensor states = pass.show("outputs", stack(outputs, 1)), seen = pass.show("context", stack(attended, 1));
  return pass.show("readout", read_out(*this, {states, seen, words}, pass));
}

std::vector<Tensor> Rnn::cross_weights(const std::vector<AttentionTrace>& traces) const {
  std::vector<Tensor> rows;
  for (const AttentionTrace& trace : traces) rows.push_back(trace.weights().values);
  return rows.empty() ? std::vector<Tensor>{} : std::vector<Tensor>{concat(rows, 2)};
}

std::unique_ptr<Decoding> Rnn::start(const Tensor& source, const Tensor& source_lengths) const {
  const NoGrad scope;
  return std::make_unique<RnnDecoding>(*this, source, source_lengths);
}

std::vector<NamedTensor> Rnn::parameters() const { return named_parameters(*this); }
void Rnn::visit_parameters(const ParameterVisitor& visit) { for_each_parameter(*this, "", visit); }
std::vector<Tensor*> Rnn::matrices() { return matrices_of(*this); }

}  // namespace attend
