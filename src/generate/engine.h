#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "attend/base/error.h"
#include "attend/generate/drafts.h"
#include "attend/generate/search.h"
#include "generate/writer.h"

// The generation loop. Sequences join and leave a running batch between steps.
namespace attend {

/// The result of one step for a sequence.
struct SequenceStep {
  std::span<const WrittenNode> nodes;  ///< the tokens considered, best first; one for a sampler
  StepRows rows;                       ///< logits of the rows that the nodes follow; all of them for a traced sequence
  /// The attention of the step, for a traced sequence; see attention_of().
  const std::vector<AttentionTrace>* traces = nullptr;
  int64_t trace_row = 0;   ///< first row of the sequence in the step's batch
  int64_t trace_rows = 1;  ///< rows of the sequence in that batch: 1 while its hypotheses share the prompt
  int64_t batch_rows = 1;  ///< rows of that batch
  int64_t newest = 0;      ///< index of the newest token among the tokens that the row read in this step

  /// Mean over heads of the attention weights of one trace, from the newest token of row `from`: [keys].
  std::vector<float> attention_of(const AttentionTrace& trace, int64_t from) const;
  /// The `top` largest of these weights for each of the heads, or all: values and places [heads, top].
  AttentionWeights weights_of(const AttentionTrace& trace, int64_t from, const std::vector<int64_t>& heads,
                              int64_t top) const;

 private:
  struct TracePlace {
    int64_t entry = 0, query = 0;
  };
  TracePlace place_of(const AttentionTrace& trace, int64_t from) const;
};

/// A text to generate.
struct Sequence {
  std::vector<int32_t> source{};  ///< input of the encoder; empty for a language model
  std::vector<int32_t> prompt{};  ///< input of the decoder before the first generated token; not empty
  Vocabulary vocabulary{};
  SearchOptions options{};  ///< beam, length_penalty, n_best, stop, ends_at_limit, sampling and rules
  int64_t limit = 0;        ///< maximum number of tokens, without the end token
  uint64_t index = 0;       ///< index of the source or prompt, which determines the random draws
  uint32_t copy = 0;        ///< index of the sample; each sample is a sequence of its own
  bool slides = false;      ///< when the context of a language model is full, continue from its last half; one row only
  bool is_traced = false;   ///< on_step receives the attention of each step
  int64_t candidates = 0;   ///< number of best tokens of each step that on_step reads
  /// Called in each step before the first token, on the thread that calls Engine::step(). Returning false ends the
  /// sequence without on_done.
  std::function<bool()> is_wanted{};
  /// Called after each step, on the thread that calls Engine::step(). Returning false ends the sequence without
  /// on_done.
  std::function<bool(const SequenceStep&)> on_step{};
  /// Called once, with the hypotheses best first.
  std::function<void(std::vector<Hypothesis>)> on_done{};
  /// Called instead of on_done if no token can be chosen: the model computed NaN, or a constraint is too large. Without
  /// it, Engine::step() throws the error.
  std::function<void(const Error&)> on_error{};
};

struct EngineOptions {
  int64_t rows = 512;                 ///< maximum number of rows in the batch; a single sequence may have more
  int64_t tokens = INT64_MAX;         ///< maximum batch size in tokens: rows · longest source or prompt
  bool use_cache = true;              ///< false: recompute all tokens in each step, as a reference
  std::optional<DType> cache_type{};  ///< of keys and values, f32 or bf16; by default default_cache_type()
  bool use_best = true;               ///< false: a GPU returns all logits even if the best suffice, as a reference
  // Only with keys and values in pages, for Transformers:
  /// Maximum number of prompt tokens in a step while other sequences generate, so that none of them waits long for its
  /// next token; four times as many while none generates. Longer prompts are read in several steps.
  int64_t prompt_tokens = INT64_MAX / 4;
  double prompt_seconds = 0;  ///< if > 0: at most as many as take about this time, judging by earlier steps
  int64_t cache_bytes = 0;    ///< limit for the memory of keys and values; 0: no limit
  int64_t warm_bytes = 0;     ///< memory of keys and values that is taken at once on the CPU; see PagePool::warm
  /// On the CPU: maximum number of guesses for a sequence in a step, at most kMostDraftTokens. Beams and traced
  /// sequences get none, nor does a step that reads a prompt or many sequences.
  int64_t draft_tokens = kDraftTokens;
  /// Time that each guess adds to a step, relative to a step of one token; by default measured.
  std::optional<double> draft_cost{};
};

struct EngineCounters {
  int64_t running = 0, waiting = 0;         ///< sequences
  int64_t pages_used = 0, pages_total = 0;  ///< of keys and values; total 0: there are no pages, or no limit
  int64_t pages_idle = 0;                   ///< kept for prompts that begin like earlier ones
  int64_t page_bytes = 0, page_tokens = 0;  ///< size of a page
  int64_t prompt_tokens = 0;                ///< prompt tokens so far, those that were reused included
  int64_t reused_tokens = 0;                ///< prompt tokens that did not have to be read
  int64_t drafted_tokens = 0;               ///< guessed tokens that steps have read
  int64_t accepted_tokens = 0;              ///< guessed tokens that were right
};

/// Generates sequences in a batch with one model, a PairModel or a LanguageModel, which must outlive the engine. The
/// tokens of a sequence, and the bits of its log probabilities and attention weights, do not depend on the other
/// sequences, the number of threads, prompt_tokens, cache_bytes or draft_tokens. Exceptions, where only the tokens do
/// not: models without pages on a GPU, and f32 weights multiplied in bf16 or TF32.
class Engine {
 public:
  Engine(const Model& model, const EngineOptions& options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Adds a sequence. Sequences start in the order in which they are added, as soon as the batch has room. Throws
  /// ShapeError for a source or prompt longer than the model's context, and Error for a sequence that needs more memory
  /// than cache_bytes.
  void add(Sequence sequence);
  /// Starts waiting sequences and generates at least one token for each sequence whose prompt is read. Returns false if
  /// there was nothing to do. After an exception from a callback, the engine must not be used.
  bool step();

  EngineCounters counters() const;

 private:
  struct State;

  const Model& model_;
  std::unique_ptr<State> state_;
};

}  // namespace attend
