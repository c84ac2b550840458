#pragma once

#include <memory>
#include <span>
#include <vector>

#include "attend/generate/search.h"
#include "generate/score_rules.h"
#include "generate/top.h"

namespace attend {

/// Limit of Writer::best_needed().
constexpr int64_t kMostBest = 64;

/// The model's output of one step for the rows of one sequence: all logits, or only the best ones.
struct StepRows {
  std::span<const float> logits;  // [rows, stride]; empty: only the best
  std::span<const float> terms;   // the two numbers of log_softmax_terms for each row, `term_stride` apart
  size_t stride = 0;              // vocabulary size of the model
  size_t term_stride = 2;
  int64_t best_count = 0;  // of each row, after its terms: the largest logits, then their ids; see best_logits()

  bool has_all() const { return best_count == 0; }
  /// The `count` best tokens of a row that are not banned. There may be fewer.
  void best_of(int64_t row, int64_t count, const Vocabulary& vocabulary, std::vector<Continuation>& result) const;
  /// Throws Error, which names `op`, if the row is not made of numbers.
  void require_numbers(int64_t row, const char* op) const;
  // Only with all logits:
  std::span<const float> logits_of(int64_t row, int64_t vocab_size) const;
  void log_probabilities_of(int64_t row, int64_t vocab_size, std::vector<float>& result) const;
  /// Of a token; of one of the best if not all logits are there.
  double log_probability(int64_t row, int32_t id) const;

 private:
  LogTerms terms_of(int64_t row) const;
  std::span<const float> best_values(int64_t row) const;
  std::span<const float> best_ids(int64_t row) const;
};

/// A token that a step considered.
struct WrittenNode {
  int64_t from = 0;  // row of the previous step that the token follows
  int64_t row = -1;  // row of the next step that continues it; -1: not continued
  int32_t id = 0;
  double log_probability = 0;  // of all tokens so far
  double counted = 0;          // log_probability after the rules, by which the search compares
  bool is_finished = false;
  bool is_cut = false;  // the text reached the limit
};

/// Chooses the tokens of one sequence. Each hypothesis is a row of the batch, which grows by one token in each step.
class Writer {
 public:
  virtual ~Writer() = default;

  virtual void advance(const StepRows& step) = 0;
  /// The number of best tokens of each row that the next advance() needs, banned ones included, at most kMostBest; 0:
  /// it needs all logits.
  virtual int64_t best_needed() const = 0;
  virtual bool is_done() const = 0;
  /// For each row of the next step, the index of the row that it continues, and its next input token.
  const std::vector<int64_t>& parents() const { return parents_; }
  const std::vector<int32_t>& ids() const { return ids_; }
  virtual std::vector<Hypothesis> take() = 0;
  /// The tokens that the last advance() considered, best first.
  const std::vector<WrittenNode>& nodes() const { return nodes_; }

 protected:
  std::vector<WrittenNode> nodes_;
  std::vector<int64_t> parents_;
  std::vector<int32_t> ids_;
};

struct WriterConfig {
  const SearchOptions& options;
  const Vocabulary& vocabulary;
  int64_t limit = 0;                ///< maximum number of tokens, without the end token
  uint64_t index = 0;               ///< index of the source or prompt, which determines the random draws
  uint32_t copy = 0;                ///< index of the sample
  std::span<const int32_t> before;  ///< see RuledText; both must outlive the writer
  std::span<const int32_t> source;
  bool counts_prompt = false;  ///< `before` is a prompt, to which a sampler's repetition penalty applies

  /// The rules for a text with at most `limit` tokens.
  ScoreRules rules() const;
};

/// Number of continuations that a beam search considers. Each hypothesis has at most one continuation for each end
/// token, and the beam must be full without those. A beam of 1 considers one continuation, so that it equals greedy
/// search.
size_t candidate_count(int64_t beam, const Vocabulary& vocabulary);

/// draw() from logits of which `best`, in descending order, are the largest that are not banned. Gives the same token
/// if the options keep none but those: with top_k, or with temperature 0. Without penalties and biases.
int32_t draw_among(std::vector<Continuation> best, const SamplingOptions& options, DrawPlace place);

std::unique_ptr<Writer> create_beam(const WriterConfig& config);
std::unique_ptr<Writer> create_sampler(const WriterConfig& config);

/// log p / length^α, where the length includes the end token.
double hypothesis_score(double log_probability, int64_t length, double length_penalty);

}  // namespace attend
