#include "attend/inspect/run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

#include "attend/autograd/autograd.h"
#include "attend/base/error.h"
#include "attend/generate/search.h"
#include "attend/ops/shape.h"
#include "attend/ops/softmax.h"
#include "attend/tensor/creation.h"
#include "generate/numbers.h"
#include "generate/top.h"
#include "inspect/capture.h"
#include "inspect/scores.h"
#include "inspect/steering.h"
#include "text/framing.h"

namespace attend {
namespace {

constexpr int64_t kLogitRows = 128;   // rows of logits in memory at once
constexpr int64_t kOutputRows = 512;  // predictions are shown for the last 512 positions of a text
constexpr int64_t kLongestPair = int64_t{1} << 20;

/// The input of one side.
struct Read {
  RunSide side;
  std::vector<int32_t> ids;
};

Tensor row_of(const std::vector<int32_t>& ids) {
  return tensor<int64_t>(std::vector<int64_t>(ids.begin(), ids.end()), {1, std::ssize(ids)});
}

/// One capture of one model.
class Capture {
 public:
  Capture(const Model& model, const Tokenizer& tokenizer, const RunOptions& options)
      : model_(model), tokenizer_(tokenizer), options_(options) {
    Vocabulary::of(tokenizer, model.vocab_size());  // throws if tokenizer and model do not match
  }

  Run take() {
    const auto start = std::chrono::steady_clock::now();
    const NoGrad scope;
    require<ShapeError>(!options_.second || dynamic_cast<const EncoderModel*>(&model_),
                        "inspect: only encoders take a second text, not architecture ", model_.architecture());
    require<ShapeError>(!options_.picture, "inspect: architecture ", model_.architecture(), " reads text, not images");
    require_ids(options_.ids, ModelKind::language, "language");
    require_ids(options_.target_ids, ModelKind::translation, "translation");
    if (const auto* pair = dynamic_cast<const PairModel*>(&model_)) {
      run(*pair);
    } else if (const auto* language = dynamic_cast<const LanguageModel*>(&model_)) {
      run(*language);
    } else if (const auto* encoder = dynamic_cast<const EncoderModel*>(&model_)) {
      run(*encoder);
    } else {
      throw Error("inspect: architecture " + model_.architecture() + " does not read text");
    }
    describe_model(run_, model_);
    finish_run(run_, start);
    return std::move(run_);
  }

 private:
  void run(const PairModel& model) {
    Read source{{"source", options_.rules.prefix + options_.text, {}},
                frame_source(tokenizer_, options_.text, INT64_MAX, options_.rules.prefix).ids};
    check_length(source);
    Read target{{"target", options_.target.value_or(""), {}}, {}};
    const bool is_given = options_.target || !options_.target_ids.empty();
    if (!is_given) {
      SearchOptions wanted = search_by(options_.rules);
      if (options_.most_written > 0) wanted.max_length = options_.most_written;
      require<ShapeError>(options_.beam >= 0 && options_.beam <= 8, "inspect: beam must be from 1 to 8, got ",
                          options_.beam);
      if (options_.beam > 0) wanted.beam = options_.beam;
      search(model, tokenizer_, std::vector<std::vector<int32_t>>{source.ids}, wanted,
             [&](int64_t, const std::vector<Hypothesis>& best) { target.side.text = tokenizer_.decode(best[0].ids); });
    }
    target.ids = options_.target_ids;
    if (target.ids.empty()) target.ids = frame_target(tokenizer_, target.side.text, INT64_MAX).ids;
    if (!target.ids.empty() && target.ids.back() == tokenizer_.special().end) target.ids.pop_back();
    // Encoding the generated text again may give more tokens than were generated, and so exceed the context.
    if (const auto room = static_cast<size_t>(model_.context() - 1); !is_given && target.ids.size() > room) {
      target.ids.resize(room);
      target.side.text = tokenizer_.decode(target.ids);
    }
    target.ids.insert(target.ids.begin(), Vocabulary::of(tokenizer_, model.vocab_size(), options_.rules).begin);
    check_length(target);
    if (!options_.target_ids.empty()) target.side.text = tokenizer_.decode(options_.target_ids);
    add(source);
    add(target);
    Watcher watcher(options_, true, steering());
    const Tensor hidden = model.hidden(
        {.source = row_of(source.ids), .source_lengths = {}, .target = row_of(target.ids)}, {.observer = &watcher});
    require_numbers(hidden);
    keep_seen(run_, watcher, options_);
    show_next(model.head(), hidden, 1);
  }

  void run(const LanguageModel& model) {
    Read text{{"text", options_.text, {}}, options_.ids};
    if (text.ids.empty()) text.ids = frame_prompt(tokenizer_, options_.text, options_.rules.as_transformers);
    check_length(text);
    if (!options_.ids.empty()) text.side.text = tokenizer_.decode(options_.ids, true);
    add(text);
    Watcher watcher(options_, false, steering());
    const Tensor hidden = model.hidden(row_of(text.ids), {.observer = &watcher});
    require_numbers(hidden);
    keep_seen(run_, watcher, options_);
    show_next(model.head(), hidden, 0);
  }

  void run(const EncoderModel& model) {
    const bool fills_masks = model.labels().empty() && model.has_masked_head();
    const auto frame = fills_masks ? frame_masked : frame_text;
    Read text{{"text", options_.text, {}}, frame(tokenizer_, options_.text, INT64_MAX).ids};
    TextInputs inputs;
    if (options_.second) {  // joined by the tokenizer, as in [CLS] first [SEP] second [SEP]
      const EncodedPair pair = tokenizer_.encode_pair(options_.text, *options_.second, kLongestPair);
      text.ids = pair.ids;
      text.side.text += " " + *options_.second;
      inputs.types = row_of(pair.types);
    }
    check_length(text);
    add(text);
    Watcher watcher(options_, false, steering());
    inputs.ids = row_of(text.ids);
    if (!model.labels().empty()) {
      const Tensor numbers = model.classify(inputs, {.observer = &watcher});
      run_.output = label_output(model.labels(), numbers, model.label_scores());
    } else if (fills_masks) {
      const Tensor hidden = model.masked_hidden(inputs, {.observer = &watcher});
      require_numbers(hidden);
      show_next(model.masked_head(), hidden, 0);
      run_.output.is_masked = true;
    } else {
      require_numbers(model.hidden(inputs, {.observer = &watcher}));
    }
    keep_seen(run_, watcher, options_);
  }

  void require_ids(const std::vector<int32_t>& ids, ModelKind kind, const char* name) const {
    require<ShapeError>(ids.empty() || model_.kind() == kind, "inspect: these token ids are for ", name,
                        " models, not for architecture ", model_.architecture());
    for (const int32_t id : ids) {
      require<ShapeError>(id >= 0 && id < model_.vocab_size(), "inspect: expected token ids from 0 to ",
                          model_.vocab_size() - 1, ", got ", id);
    }
  }

  /// The directions of RunOptions::steer. Each of their texts is a run of its own.
  std::vector<ActivationChange> steering() const {
    return steering_changes(options_.steer, [&](const std::string& text) {
      return capture(model_, tokenizer_,
                     {.text = text,
                      .target = {},
                      .second = {},
                      .heads = {},
                      .tokens = {},
                      .candidates = 1,
                      .longest = options_.longest,
                      .rules = options_.rules});
    });
  }

  void check_length(const Read& read) const {
    const auto count = std::ssize(read.ids);
    require<ShapeError>(count <= model_.context(), "inspect: the ", read.side.name, " has ", count,
                        " tokens, but the model's context is ", model_.context());
    require<ShapeError>(count <= options_.longest, "inspect: the ", read.side.name, " has ", count, " tokens; at most ",
                        options_.longest, " can be inspected");
  }

  void add(Read& read) {
    read.side.tokens = show_tokens(tokenizer_, read.ids, read.side.text);
    add_side(run_, std::move(read.side), options_);
  }

  /// Shows the most likely tokens of each position's prediction. `hidden` is [1, length, dim].
  void show_next(const Head& head, const Tensor& hidden, int64_t side) {
    run_.output.kind = RunOutput::Kind::tokens;
    run_.output.side = side;
    const int64_t length = hidden.dim(1);
    run_.output.rows.resize(static_cast<size_t>(length));
    run_.output.totals.resize(static_cast<size_t>(length));
    for (int64_t begin = std::max<int64_t>(length - kOutputRows, 0); begin < length; begin += kLogitRows) {
      const int64_t end = std::min(begin + kLogitRows, length);
      show_rows(to(head.logits(slice(select(hidden, 0, 0), 0, begin, end)), DType::f32), begin);
    }
  }

  void show_rows(const Tensor& logits, int64_t first) {
    const Tensor shares = to(log_softmax(logits), kCpu), numbers = to(logits, kCpu);
    const auto values = shares.data<const float>(), raw = numbers.data<const float>();
    const auto words = static_cast<size_t>(shares.dim(1));
    for (int64_t row = 0; row < shares.dim(0); ++row) {
      std::vector<Continuation> best;
      require_number(values[static_cast<size_t>(row) * words], "inspect");  // one NaN logit makes its whole row NaN
      top_values(values.subspan(static_cast<size_t>(row) * words, words), options_.candidates, best);
      const auto place = static_cast<size_t>(first + row);
      const auto logit = [&](int32_t id) {
        return static_cast<double>(raw[static_cast<size_t>(row) * words + static_cast<size_t>(id)]);
      };
      if (!best.empty()) run_.output.totals[place] = logit(best[0].id) - static_cast<double>(best[0].value);
      for (const Continuation& word : best) {
        const auto [entry, is_new] = shown_.try_emplace(word.id);
        if (is_new) entry->second = show_token(tokenizer_, word.id);
        run_.output.rows[place].push_back({entry->second, std::exp(static_cast<double>(word.value)), logit(word.id)});
      }
    }
  }

  const Model& model_;
  const Tokenizer& tokenizer_;
  const RunOptions& options_;
  Run run_;
  std::unordered_map<int32_t, ShownToken> shown_;
};

std::vector<int64_t> numbers(RowRange range) {
  std::vector<int64_t> result(static_cast<size_t>(range.end - range.begin));
  std::iota(result.begin(), result.end(), range.begin);
  return result;
}

}  // namespace

double RunAttention::scale() const {
  if (additive) return 1;
  return trace.options.scale.value_or(1 / std::sqrt(static_cast<double>(trace.q.dim(3))));
}

Tensor RunAttention::weights(const std::vector<int64_t>& heads, RowRange rows) const {
  require<ShapeError>(rows.begin >= 0 && rows.begin <= rows.end && rows.end <= queries(), "inspect: there are ",
                      queries(), " rows, but ", rows.begin, " to ", rows.end, " were requested");
  if (rows.begin == rows.end) return empty({1, heads.empty() ? this->heads() : std::ssize(heads), 0, keys()});
  const NoGrad scope;
  if (!additive) return trace.weights({.heads = heads, .rows = numbers(rows)}).values;
  // With q = k = 0 the attention op computes softmax(bias). Row by row, as in the forward pass, so that the bits are
  // the same.
  const TensorOptions kind{.device = trace.lse.device()};
  const Tensor q = zeros({1, 1, 1, 1}, kind), k = zeros({1, 1, keys(), 1}, kind);
  std::vector<Tensor> parts;
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    AttentionOptions options = trace.options;
    options.bias = reshape(additive_scores(*this, row), {1, 1, 1, -1});
    parts.push_back(attention_weights(q, k, slice(trace.lse, 2, row, row + 1), options).values);
  }
  return concat(parts, 2);
}

int64_t Run::bytes() const {
  std::unordered_set<const Storage*> seen;
  int64_t total = 0;
  const auto add = [&](const Tensor& tensor) {
    if (tensor && seen.insert(tensor.storage().get()).second) total += static_cast<int64_t>(tensor.storage()->bytes());
  };
  for (const RunAttention& one : attention) {
    for (const Tensor* part : {&one.trace.q, &one.trace.k, &one.trace.v, &one.trace.lse, &one.trace.options.mask,
                               &one.trace.options.bias, &one.additive}) {
      add(*part);
    }
  }
  for (const auto& [name, tensor] : values) add(tensor);
  for (const auto& [name, tensor] : parameters) add(tensor);
  for (const RunSide& side : sides) {
    total += std::ssize(side.tokens) * static_cast<int64_t>(sizeof(ShownToken));
    if (side.picture) total += std::ssize(side.picture->image.pixels);
  }
  return total;
}

Run capture(const Model& model, const Tokenizer& tokenizer, const RunOptions& options) {
  return Capture(model, tokenizer, options).take();
}

}  // namespace attend
