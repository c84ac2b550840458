#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "attend/generate/search.h"
#include "generate/writer.h"

// The one loop that writes text. Sequences join a running batch and leave it between steps.
namespace attend {

/// What one step did to a sequence.
struct SequenceStep {
  std::span<const WrittenNode> nodes;  ///< the tokens considered, best first; one for a sampler
  StepRows rows;                       ///< logits of the rows that the nodes follow
  /// The attention of the step, for a traced sequence; see attention_of().
  const std::vector<AttentionTrace>* traces = nullptr;
  int64_t trace_row = 0;   ///< first row of the sequence in the step's batch
  int64_t trace_rows = 1;  ///< rows of the sequence in that batch: 1 while its hypotheses share the prompt
  int64_t batch_rows = 1;  ///< rows of that batch
  int64_t newest = 0;      ///< place of the newest token among those the row read in this step

  /// Mean over heads of the attention weights of one trace, from the newest token of row `from`: [keys].
  std::vector<float> attention_of(const AttentionTrace& trace, int64_t from) const;
};

/// A text to write.
struct Sequence {
  std::vector<int32_t> source{};  ///< what the encoder reads; empty for a language model
  std::vector<int32_t> prompt{};  ///< what the decoder reads before it writes; not empty
  Vocabulary vocabulary{};
  SearchOptions options{};  ///< beam, length_penalty, n_best, stop, ends_at_limit, sampling and rules
  int64_t limit = 0;        ///< maximum number of tokens, the end not counted
  uint64_t index = 0;       ///< number of the source or prompt, by which a sampler draws
  uint32_t copy = 0;        ///< number of the sample: a sampler writes one text
  bool slides = false;      ///< when the context of a language model is full, continue from its last half; one row only
  bool is_traced = false;   ///< on_step gets the attention of each step
  /// Called after each step, on the thread that calls Engine::step(). False ends the sequence without on_done.
  std::function<bool(const SequenceStep&)> on_step{};
  /// Called once, with the hypotheses best first.
  std::function<void(std::vector<Hypothesis>)> on_done{};
};

struct EngineOptions {
  int64_t rows = 512;          ///< maximum number of rows in the batch; a single sequence may have more
  int64_t tokens = INT64_MAX;  ///< maximum of rows · the longest source or prompt among them
  bool use_cache = true;       ///< false: recompute everything for each token, to compare with
};

/// Writes sequences side by side with one model, a PairModel or a LanguageModel, which must outlive the engine. The
/// tokens of a sequence do not depend on the others, nor on the number of threads.
class Engine {
 public:
  Engine(const Model& model, const EngineOptions& options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Sequences start in the order in which they are added, when there is room. Throws ShapeError for a source or prompt
  /// that does not fit the model's context.
  void add(Sequence sequence);
  /// Starts waiting sequences and writes one token more for each running one; false when nothing was left to do. An
  /// exception of a callback leaves the engine unusable.
  bool step();

 private:
  struct Slot;
  struct Group;

  std::vector<std::unique_ptr<Group>> start_waiting();
  std::unique_ptr<Group> read(std::vector<Slot> slots) const;
  Tensor first_logits(Group& group, std::span<const Slot* const> distinct) const;
  bool fits(const Slot& slot, int64_t rows, int64_t longest) const;
  void settle(Group& group);
  void merge(std::vector<std::unique_ptr<Group>> fresh);

  const Model& model_;
  EngineOptions options_;
  std::deque<Slot> waiting_;
  std::vector<std::unique_ptr<Group>> groups_;  // one for each number of rows per sequence
};

}  // namespace attend
