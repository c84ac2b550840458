#include "attend/inspect/circuits.h"

#include <algorithm>
#include <cmath>

#include "attend/autograd/autograd.h"
#include "attend/base/error.h"
#include "attend/models/transformer_model.h"
#include "attend/ops/arithmetic.h"
#include "attend/ops/embedding.h"
#include "attend/ops/linear.h"
#include "attend/ops/reduce.h"
#include "attend/ops/shape.h"
#include "attend/tensor/creation.h"
#include "generate/top.h"
#include "inspect/structure.h"
#include "io/printable.h"

namespace attend {
namespace {

constexpr int64_t kMostTokens = 64, kMostTop = 50, kChunk = 4096, kSample = 256, kCopies = 10;

Tensor indices(const std::vector<int64_t>& ids) { return tensor<int64_t>(ids, {std::ssize(ids)}); }

/// One head of the model, with the matrices around it.
class CircuitWork {
 public:
  CircuitWork(const InspectedModel& model, const CircuitOptions& options)
      : model_(model), options_(options), words_(model.model->vocab_size()) {
    require<Error>(model.tokenizer != nullptr, "circuits: the model does not read words");
    find_module();
    const int64_t heads = attention_->config.heads;
    require<ShapeError>(options.head >= 0 && options.head < heads, "circuits: there is no head ", options.head,
                        "; the module has ", heads, ", counted from 0");
    require<ShapeError>(options.top >= 1 && options.top <= kMostTop, "circuits: top must be 1 to ", kMostTop, ", got ",
                        options.top);
    require<ShapeError>(std::ssize(options.tokens) <= kMostTokens, "circuits: at most ", kMostTokens,
                        " tokens can be probed, got ", options.tokens.size());
    for (const int32_t id : options.tokens) {
      require<ShapeError>(id >= 0 && id < words_, "circuits: there is no token ", id, "; the vocabulary has ", words_);
    }
    find_tables();
  }

  HeadCircuits read() {
    const NoGrad scope;
    const int64_t chunks = (words_ + kChunk - 1) / kChunk;
    std::vector<int64_t> ids(options_.tokens.begin(), options_.tokens.end());
    HeadCircuits result;
    if (!ids.empty()) {
      const Tensor written = outputs(ids), queries = projected(attention_->query, query_table_, ids, false);
      const Tensor raised = logits(written);
      const Tensor scores = all_scores(queries, chunks);
      for (size_t i = 0; i < ids.size(); ++i) {
        const auto row = static_cast<int64_t>(i);
        TokenCircuit circuit;
        circuit.token = show_token(*model_.tokenizer, options_.tokens[i]);
        fill(select(raised, 0, row), circuit.raises, circuit.lowers);
        fill(select(scores, 0, row), circuit.seeks, circuit.avoids);
        result.tokens.push_back(std::move(circuit));
      }
    }
    measure_copying(result);
    return result;
  }

 private:
  void find_module() {
    require<ShapeError>(stacks_of(*model_.model).back().layers > 0, "circuits need a Transformer; architecture ",
                        model_.model->architecture(), " is none");
    for (const StackPlace& stack : stacks_of(*model_.model)) {
      const std::vector<LayerPlace> layers = layers_of(*model_.model, stack);
      for (size_t i = 0; i < layers.size(); ++i) {
        for (const BranchPlace& branch : layers[i].branches) {
          if (!branch.attention || stack.layer(static_cast<int64_t>(i)) + "." + branch.name != options_.module)
            continue;
          attention_ = branch.attention;
          if (layers[i].norm_first) norm_ = branch.norm;
          is_cross_ = branch.name == "cross_attention";
          stack_ = stack;
          return;
        }
      }
    }
    throw ShapeError("circuits: there is no attention module " + in_quotes(options_.module));
  }

  void find_tables() {
    Tensor own, target;
    for (const auto& [name, tensor] : model_.model->parameters()) {
      if (name == "embedding.weight") own = tensor.detach();
      if (name == "target_embedding.weight") target = tensor.detach();
    }
    require<Error>(own && own.rank() == 2, "circuits: the model has no token embeddings");
    const bool is_decoder = stack_.name == "decoder";
    query_table_ = is_decoder && target ? target : own;
    key_table_ = is_cross_ ? own : query_table_;
    head_ = head_of(*model_.model);
    same_words_ = !is_cross_ && stack_.name != "encoder";
    if (const auto* pair = dynamic_cast<const TransformerModel*>(model_.model.get())) {
      if (pair->settings.scale_embedding) scale_ = std::sqrt(static_cast<double>(pair->settings.dim));
    }
  }

  /// The embeddings as the module reads them: [ids, dim]. Keys of cross-attention come from the encoder, whose output
  /// the decoder's norm does not touch.
  Tensor read(const Tensor& table, const std::vector<int64_t>& ids, bool is_memory) const {
    const Tensor x = embedding(indices(ids), table) * scale_;
    return norm_ && !is_memory ? norm_->forward(x) : x;
  }

  int64_t group(bool is_key) const {
    const auto& config = attention_->config;
    return is_key ? options_.head * config.key_heads / config.heads : options_.head;
  }
  /// The head's part of a projection: [ids, head_dim].
  Tensor projected(const Linear& layer, const Tensor& table, const std::vector<int64_t>& ids, bool is_key) const {
    const int64_t width = attention_->config.head_dim, first = group(is_key) * width;
    const Tensor part = slice(layer.forward(read(table, ids, is_key && is_cross_)), 1, first, first + width);
    const auto& norm = is_key ? attention_->key_norm : attention_->query_norm;
    return norm ? norm->forward(contiguous(part)) : part;
  }

  /// What the head writes into the residual stream when it attends to each of the tokens alone: [ids, dim]. Biases,
  /// which are the same for all tokens, are left out.
  Tensor outputs(const std::vector<int64_t>& ids) const {
    const int64_t width = attention_->config.head_dim, first = group(true) * width;
    const Linear value{.weight = attention_->value.weight.detach(), .bias = {}};
    const Tensor part = slice(value.forward(read(key_table_, ids, is_cross_)), 1, first, first + width);
    const Tensor joined = zeros({part.dim(0), attention_->config.heads * width}, {part.dtype(), part.device()});
    copy_values(part, slice(joined, 1, options_.head * width, (options_.head + 1) * width));
    return linear(joined, attention_->output.weight.detach());
  }

  /// The change of all logits, [rows, words], by a vector that is added to the residual stream before the final norm.
  Tensor logits(const Tensor& written) const {
    Tensor x = written;
    if (const Norm* norm = final_norm_of(*model_.model, stack_); norm && stack_.name != "encoder") {
      if (!norm->rms) x = x - mean(x, 1, true);
      if (norm->weight) x = x * norm->weight.detach();
    }
    return to(to(linear(x, head_.weight.detach()), DType::f32), kCpu);
  }

  Tensor all_scores(const Tensor& queries, int64_t chunks) const {
    std::vector<Tensor> parts;
    const double scale =
        attention_->config.scale.value_or(1 / std::sqrt(static_cast<double>(attention_->config.head_dim)));
    for (int64_t begin = 0; begin < words_; begin += kChunk) {
      if (options_.on_step) options_.on_step(begin / kChunk, chunks);
      std::vector<int64_t> ids(static_cast<size_t>(std::min(kChunk, words_ - begin)));
      for (size_t i = 0; i < ids.size(); ++i) ids[i] = begin + static_cast<int64_t>(i);
      parts.push_back(
          to(linear(contiguous(queries), contiguous(projected(attention_->key, key_table_, ids, true))) * scale, kCpu));
    }
    return concat(parts, 1);
  }

  void fill(const Tensor& row, std::vector<TokenNeighbour>& largest, std::vector<TokenNeighbour>& smallest) const {
    std::vector<float> values = row.to_vector<float>();
    const auto known = std::min<int64_t>(std::ssize(values), model_.tokenizer->size());
    values.resize(static_cast<size_t>(known));
    const auto take = [&](float sign, std::vector<TokenNeighbour>& list) {
      std::vector<Continuation> best;
      top_values(values, options_.top, best);
      for (const Continuation& one : best) {
        list.push_back({show_token(*model_.tokenizer, one.id), static_cast<double>(sign * one.value)});
      }
      for (float& value : values) value = -value;
    };
    take(1, largest);
    take(-1, smallest);
  }

  void measure_copying(HeadCircuits& result) const {
    if (!same_words_) return;
    const int64_t words = std::min(words_, model_.tokenizer->size());
    result.sampled = std::min(words, kSample);
    std::vector<int64_t> ids;
    for (int64_t i = 0; i < result.sampled; ++i) ids.push_back(i * words / result.sampled);
    const Tensor raised = logits(outputs(ids));
    int64_t copies = 0;
    for (int64_t i = 0; i < result.sampled; ++i) {
      std::vector<Continuation> best;
      top_values(select(raised, 0, i).to_vector<float>(), kCopies, best);
      copies +=
          std::ranges::any_of(best, [&](const Continuation& one) { return one.id == ids[static_cast<size_t>(i)]; });
    }
    result.copying = static_cast<double>(copies) / static_cast<double>(result.sampled);
  }

  const InspectedModel& model_;
  const CircuitOptions& options_;
  int64_t words_;
  const MultiheadAttention* attention_ = nullptr;
  const Norm* norm_ = nullptr;  // before the branch
  bool is_cross_ = false, same_words_ = true;
  StackPlace stack_;
  Tensor query_table_, key_table_;
  Head head_;
  double scale_ = 1;
};

}  // namespace

HeadCircuits head_circuits(const InspectedModel& model, const CircuitOptions& options) {
  return CircuitWork(model, options).read();
}

}  // namespace attend
