#include "attend/inspect/generation.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>

#include "attend/autograd/autograd.h"
#include "attend/base/error.h"
#include "attend/inspect/run.h"
#include "attend/ops/reduce.h"
#include "attend/ops/shape.h"
#include "attend/ops/softmax.h"
#include "attend/tensor/creation.h"
#include "generate/encode.h"
#include "generate/writer.h"
#include "inspect/json.h"

namespace attend {
namespace {

/// A word of the tree: what was written up to it can be followed back to the root, 0.
struct Node {
  int64_t parent = 0;
  int32_t id = 0;
  int64_t length = 0;
  double counted = 0;  // log p after the rules
  bool is_finished = false;
};

/// How the mean over heads of each attention looked from one row of a step.
Json looked_json(const std::vector<AttentionTrace>& traces, int64_t row, int64_t rows,
                 const std::map<std::string, int64_t>& places) {
  Json result = Json::array();
  for (const AttentionTrace& trace : traces) {
    const auto place = places.find(trace.path);
    if (place == places.end()) continue;
    // Rows are a batch where each has its own keys, and queries of one batch where all look at one source.
    const bool is_batch = trace.q.dim(0) == rows && rows > 1;
    const int64_t query = is_batch || rows == 1 ? trace.q.dim(2) - 1 : row;
    const Tensor weights = trace.weights({.heads = {}, .rows = {query}}).values;  // [batch, heads, 1, keys]
    const Tensor own = select(mean(weights, 1), 0, is_batch ? row : 0);           // [1, keys]
    result.push_back({{"attention", place->second}, {"weights", own.to_vector<float>()}});
  }
  return result;
}

class Generation {
 public:
  Generation(const Model& model, const Tokenizer& tokenizer, const GenerationOptions& options,
             const OnGenerationLine& on_line)
      : model_(model),
        tokenizer_(tokenizer),
        options_(options),
        on_line_(on_line),
        vocabulary_(Vocabulary::of(tokenizer, model.vocab_size(), options.rules)) {
    search_ = with_rules({.beam = options.beam, .length_penalty = options.rules.length_penalty}, options.rules);
    if (options.temperature)
      search_.sampling = SamplingOptions{.temperature = *options.temperature, .seed = options.seed};
  }

  void run() {
    const auto start = std::chrono::steady_clock::now();
    const NoGrad scope;
    begin();
    const WriterConfig config{.options = search_,
                              .vocabulary = vocabulary_,
                              .limit = limit_,
                              .index = 0,
                              .before = prompt_,
                              .source = source_};
    const auto writer = options_.temperature ? create_sampler(config) : create_beam(config);
    node_of_row_.assign(static_cast<size_t>(options_.beam), 0);
    bool goes_on = true;
    for (int64_t step = 0; goes_on && step < limit_ + 1 && !writer->is_done(); ++step) {
      if (step == limit_ && model_.kind() == ModelKind::language) break;  // only a sentence has to end
      goes_on = advance(*writer, step);
    }
    if (!goes_on) return;
    const double milliseconds =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    on_line_(json_text({{"done", true}, {"text", text_of(best())}, {"milliseconds", milliseconds}}));
  }

 private:
  /// Reads the source or the prompt and says what there is to look at.
  void begin() {
    RunOptions wanted{.text = options_.text, .target = "", .second = {}, .heads = {}, .tokens = {}, .candidates = 1};
    wanted.rules = options_.rules;
    const Run run = capture(model_, tokenizer_, wanted);
    Json sides = Json::array(), attention = Json::array();
    for (const RunSide& side : run.sides) sides.push_back(side_json(side));
    for (size_t i = 0; i < run.attention.size(); ++i) {
      Json json = attention_json(run.attention[i], static_cast<int64_t>(i));
      json.erase("queries");
      attention.push_back(std::move(json));
      places_[run.attention[i].trace.path] = static_cast<int64_t>(i);
    }
    const auto tokens = std::ssize(run.sides[0].tokens);
    if (const auto* pair = dynamic_cast<const PairModel*>(&model_)) {
      source_ = encode_source(tokenizer_, options_.text, INT64_MAX, options_.rules).ids;
      require<FormatError>(vocabulary_.end() >= 0, "generate: the tokenizer has no token that ends a sentence");
      const std::vector<int64_t> ids(source_.begin(), source_.end());
      decoding_ = pair->start(tensor<int64_t>(ids, {1, std::ssize(ids)}), {});
      decoding_->spread(options_.beam);
      prompt_ = {vocabulary_.begin};
      limit_ = std::min(options_.length, model_.context() - (search_.ends_at_limit ? 1 : 0));
    } else {
      const auto& language = dynamic_cast<const LanguageModel&>(model_);
      decoding_ = language.start();
      source_ = prompt_ = encode_prompt(tokenizer_, options_.text, options_.rules);
      limit_ = std::min(options_.length, model_.context() - tokens);
    }
    const GenerationRules& rules = options_.rules;
    const int64_t most = rules.max_new > 0 ? rules.max_new : rules.max_length - std::ssize(prompt_);
    if (most > 0) limit_ = std::min(limit_, most);
    on_line_(json_text({{"sides", std::move(sides)}, {"attention", std::move(attention)}}));
  }

  /// The logits of each row after what it has read; at first all rows read the same.
  Tensor next_logits(const Writer& writer, int64_t step, AttentionRecorder& recorder) {
    std::vector<int64_t> ids;
    if (step == 0) {
      for (int64_t row = 0; row < options_.beam; ++row) ids.insert(ids.end(), prompt_.begin(), prompt_.end());
    } else {
      ids.assign(writer.ids().begin(), writer.ids().end());
    }
    return to(decoding_->step(tensor<int64_t>(ids, {options_.beam, std::ssize(ids) / options_.beam}), {},
                              {.observer = &recorder}),
              DType::f32);
  }

  bool advance(Writer& writer, int64_t step) {
    AttentionRecorder recorder;
    const Tensor logits = next_logits(writer, step, recorder), log_shares = log_softmax(logits);
    const Tensor terms = log_softmax_terms(logits);
    const auto best =
        top_continuations(logits, static_cast<int64_t>(candidate_count(options_.beam, vocabulary_)), vocabulary_);
    writer.advance({.logits = logits.data<const float>(),
                    .terms = terms.data<const float>(),
                    .stride = static_cast<size_t>(logits.dim(1)),
                    .best = best});
    const std::vector<int64_t> before = node_of_row_;
    Json nodes = Json::array();
    for (const WrittenNode& node : writer.nodes()) {
      const int64_t parent = before[static_cast<size_t>(node.from)];
      nodes.push_back(add(node, parent, log_shares, recorder.traces));
    }
    std::vector<int64_t> order(writer.parents().begin(), writer.parents().end());
    if (std::ranges::any_of(order, [i = int64_t{0}](int64_t row) mutable { return row != i++; })) {
      decoding_->select(order);
    }
    return on_line_(json_text({{"step", step}, {"nodes", std::move(nodes)}}));
  }

  Json add(const WrittenNode& node, int64_t parent, const Tensor& log_shares,
           const std::vector<AttentionTrace>& traces) {
    const Node* before = parent == 0 ? nullptr : &nodes_[static_cast<size_t>(parent - 1)];
    nodes_.push_back({.parent = parent,
                      .id = node.id,
                      .length = before ? before->length + 1 : 1,
                      .counted = node.counted,
                      .is_finished = node.is_finished});
    const auto id = std::ssize(nodes_);
    if (node.row >= 0) node_of_row_[static_cast<size_t>(node.row)] = id;
    const auto words = static_cast<size_t>(log_shares.dim(1));
    const auto row = log_shares.data<const float>().subspan(static_cast<size_t>(node.from) * words, words);
    std::vector<Continuation> likely;
    top_values(row, options_.candidates, likely);
    Json candidates = Json::array();
    for (const Continuation& word : likely) {
      candidates.push_back(
          candidate_json({show_token(tokenizer_, word.id), std::exp(static_cast<double>(word.value))}));
    }
    return {{"id", id},
            {"parent", parent},
            {"token", token_json(show_token(tokenizer_, node.id))},
            {"p", std::exp(static_cast<double>(row[static_cast<size_t>(node.id)]))},
            {"logp", node.log_probability},
            {"finished", node.is_finished},
            {"kept", node.is_finished || node.row >= 0},
            {"candidates", std::move(candidates)},
            {"looked", looked_json(traces, node.from, options_.beam, places_)}};
  }

  /// The best that ended; without one the likeliest that did not.
  int64_t best() const {
    int64_t best = 0;
    std::pair<bool, double> best_score{false, -INFINITY};
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const Node& node = nodes_[i];
      const auto id = static_cast<int64_t>(i) + 1;
      if (!node.is_finished && std::ranges::find(node_of_row_, id) == node_of_row_.end()) continue;
      const std::pair score{node.is_finished, hypothesis_score(node.counted, node.length - (node.is_finished ? 1 : 0),
                                                               search_.length_penalty)};
      if (best == 0 || score > best_score) best = id, best_score = score;
    }
    return best;
  }

  std::string text_of(int64_t id) const {
    std::vector<int32_t> ids;
    for (; id != 0; id = nodes_[static_cast<size_t>(id - 1)].parent) {
      const Node& node = nodes_[static_cast<size_t>(id - 1)];
      if (!node.is_finished || !vocabulary_.is_end(node.id)) ids.push_back(node.id);
    }
    std::ranges::reverse(ids);
    return tokenizer_.decode(ids);
  }

  const Model& model_;
  const Tokenizer& tokenizer_;
  const GenerationOptions& options_;
  const OnGenerationLine& on_line_;
  Vocabulary vocabulary_;
  SearchOptions search_;
  std::unique_ptr<Decoding> decoding_;
  std::vector<int32_t> prompt_, source_;
  int64_t limit_ = 0;
  std::map<std::string, int64_t> places_;  // of attention modules, by path
  std::vector<Node> nodes_;                // node n is nodes_[n − 1]
  std::vector<int64_t> node_of_row_;
};

}  // namespace

void check_generation(const Model& model, const GenerationOptions& options) {
  const auto between = [](const char* name, int64_t value, int64_t least, int64_t most) {
    require<ShapeError>(value >= least && value <= most, "generate: ", name, " must be from ", least, " to ", most,
                        ", got ", value);
  };
  between("beam", options.beam, 1, 8);
  between("length", options.length, 1, 256);
  between("candidates", options.candidates, 1, 50);
  require<ShapeError>(!options.temperature || options.beam == 1, "generate: words are drawn with a beam of 1, got ",
                      options.beam);
  if (options.temperature) check_sampling({.temperature = *options.temperature});
  const bool writes = model.kind() == ModelKind::translation || model.kind() == ModelKind::language;
  require<ShapeError>(writes, "generate: a model of architecture ", model.architecture(), " writes no text");
}

void generate_steps(const Model& model, const Tokenizer& tokenizer, const GenerationOptions& options,
                    const OnGenerationLine& on_line) {
  check_generation(model, options);
  Generation(model, tokenizer, options, on_line).run();
}

}  // namespace attend
