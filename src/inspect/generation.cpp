#include "attend/inspect/generation.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>

#include "attend/base/error.h"
#include "attend/inspect/run.h"
#include "generate/engine.h"
#include "generate/limits.h"
#include "inspect/json.h"
#include "text/framing.h"

namespace attend {
namespace {

/// A token in the search tree. Following `parent` to the root, node 0, gives the tokens before it.
struct Node {
  int64_t parent = 0;
  int32_t id = 0;
  int64_t length = 0;
  double counted = 0;  // log probability after the generation rules
  bool is_finished = false;
};

class Generation {
 public:
  Generation(const Model& model, const Tokenizer& tokenizer, const GenerationOptions& options,
             const OnGenerationLine& on_line)
      : model_(model),
        tokenizer_(tokenizer),
        options_(options),
        on_line_(on_line),
        vocabulary_(Vocabulary::of(tokenizer, model.vocab_size(), options.rules)) {}

  void run() {
    const auto start = std::chrono::steady_clock::now();
    Sequence sequence = begin();
    length_penalty_ = sequence.options.length_penalty;
    node_of_row_.assign(static_cast<size_t>(options_.beam), 0);
    bool is_stopped = false;
    sequence.on_step = [&, step = int64_t{0}](const SequenceStep& written) mutable {
      is_stopped = !advance(written, step++);
      return !is_stopped;
    };
    const bool has_room = sequence.limit > 0;  // after the prompt
    Engine engine(model_, {});
    engine.add(std::move(sequence));
    while (has_room && engine.step()) {
    }
    if (is_stopped) return;
    const double milliseconds =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    on_line_(json_text({{"done", true}, {"text", text_of(best())}, {"milliseconds", milliseconds}}));
  }

 private:
  /// Emits the first line, sides and attention modules, and returns the sequence to generate.
  Sequence begin() {
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
    Sequence sequence{.vocabulary = vocabulary_, .is_traced = true};
    sequence.options =
        with_rules({.beam = options_.beam, .length_penalty = options_.rules.length_penalty}, options_.rules);
    if (options_.temperature) {
      sequence.options.sampling = SamplingOptions{.temperature = *options_.temperature, .seed = options_.seed};
    }
    int64_t room = model_.context();
    if (model_.kind() == ModelKind::translation) {
      require<FormatError>(vocabulary_.end() >= 0, "generate: the tokenizer has no end-of-sequence token");
      sequence.source = frame_source(tokenizer_, options_.text, INT64_MAX, options_.rules.prefix).ids;
      sequence.prompt = {vocabulary_.begin};
      if (sequence.options.ends_at_limit) --room;
    } else {
      sequence.prompt = frame_prompt(tokenizer_, options_.text, options_.rules.as_transformers);
      sequence.options.ends_at_limit = false;  // only a translation must end with the end token
      room -= std::ssize(sequence.prompt);
    }
    sequence.limit =
        std::min({token_limit(options_.rules, 0, std::ssize(sequence.prompt), options_.length), options_.length, room});
    on_line_(json_text({{"sides", std::move(sides)}, {"attention", std::move(attention)}}));
    return sequence;
  }

  bool advance(const SequenceStep& step, int64_t number) {
    const std::vector<int64_t> before = node_of_row_;
    Json nodes = Json::array();
    for (const WrittenNode& node : step.nodes) {
      nodes.push_back(add(node, before[static_cast<size_t>(node.from)], step));
    }
    return on_line_(json_text({{"step", number}, {"nodes", std::move(nodes)}}));
  }

  /// The attention weights from the row that a node continues, averaged over the heads of each attention module.
  Json looked_json(const SequenceStep& step, int64_t from) const {
    Json result = Json::array();
    for (const AttentionTrace& trace : *step.traces) {
      const auto place = places_.find(trace.path);
      if (place == places_.end()) continue;
      result.push_back({{"attention", place->second}, {"weights", step.attention_of(trace, from)}});
    }
    return result;
  }

  Json add(const WrittenNode& node, int64_t parent, const SequenceStep& step) {
    const Node* before = parent == 0 ? nullptr : &nodes_[static_cast<size_t>(parent - 1)];
    nodes_.push_back({.parent = parent,
                      .id = node.id,
                      .length = before ? before->length + 1 : 1,
                      .counted = node.counted,
                      .is_finished = node.is_finished});
    const auto id = std::ssize(nodes_);
    if (node.row >= 0) node_of_row_[static_cast<size_t>(node.row)] = id;
    std::vector<float> row;  // log-probabilities of all tokens
    step.rows.log_probabilities_of(node.from, static_cast<int64_t>(step.rows.stride), row);
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
            {"finished", node.is_finished && (vocabulary_.is_end(node.id) || !node.is_cut)},
            {"kept", node.is_finished || node.row >= 0},
            {"candidates", std::move(candidates)},
            {"looked", looked_json(step, node.from)}};
  }

  /// The best finished hypothesis; if none has finished, the most likely unfinished one.
  int64_t best() const {
    int64_t best = 0;
    std::pair<bool, double> best_score{false, -INFINITY};
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const Node& node = nodes_[i];
      const auto id = static_cast<int64_t>(i) + 1;
      if (!node.is_finished && std::ranges::find(node_of_row_, id) == node_of_row_.end()) continue;
      const std::pair score{node.is_finished,
                            hypothesis_score(node.counted, node.length - (node.is_finished ? 1 : 0), length_penalty_)};
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
  double length_penalty_ = 1;
  std::map<std::string, int64_t> places_;  // index of each attention module, by path
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
  require<ShapeError>(!options.temperature || options.beam == 1, "generate: temperature requires a beam of 1, got ",
                      options.beam);
  if (options.temperature) check_sampling({.temperature = *options.temperature});
  const bool writes = model.kind() == ModelKind::translation || model.kind() == ModelKind::language;
  require<ShapeError>(writes, "generate: architecture ", model.architecture(), " does not generate text");
}

void generate_steps(const Model& model, const Tokenizer& tokenizer, const GenerationOptions& options,
                    const OnGenerationLine& on_line) {
  check_generation(model, options);
  Generation(model, tokenizer, options, on_line).run();
}

}  // namespace attend
