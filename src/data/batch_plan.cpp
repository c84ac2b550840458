#include <algorithm>
#include <numeric>
#include <utility>

#include "attend/base/error.h"
#include "attend/data/batches.h"
#include "data/shuffle.h"

namespace attend {
namespace {

/// An example and its sort key. Examples with equal keys may swap places from epoch to epoch. The key is the length of
/// the longer side and by how much the target exceeds the source, in steps of 2. The second part keeps a sentence with
/// a long source out of a batch with a long target, where both sides would be padded. On Multi30k with batches of 4096
/// tokens, 95.3 % of all positions then hold a token, against 93.4 % with the longer side alone.
struct Entry {
  int32_t longer = 0, surplus = 0;
  int64_t example = 0;
  std::pair<int32_t, int32_t> key() const { return {longer, surplus}; }
};

Entry measure(const TokenCache& cache, int64_t example, bool labelled) {
  const bool pairs = cache.columns() >= 2 && !labelled;
  const int64_t source = cache.length(example, 0) + (pairs ? 1 : 0), target = pairs ? cache.length(example, 1) + 1 : 0;
  const int64_t longer = std::max(source, target), surplus = pairs ? (target - source) >> 1 : 0;
  require<ShapeError>(longer <= INT32_MAX, "batches: example ", example, " has ", longer, " tokens");
  return {static_cast<int32_t>(longer), static_cast<int32_t>(surplus), example};
}

/// Start of each batch: takes examples from the shortest on, as many as fit the budget.
std::vector<int64_t> cut(const std::vector<Entry>& entries, const BatchOptions& options) {
  std::vector<int64_t> starts{0};
  const auto count = static_cast<int64_t>(entries.size());
  for (int64_t i = 1; i < count; ++i) {
    const int64_t examples = i + 1 - starts.back();
    const bool too_many_tokens = examples * entries[static_cast<size_t>(i)].longer > options.tokens;
    const bool too_many_examples = options.sentences > 0 && examples > options.sentences;
    if (too_many_tokens || too_many_examples) starts.push_back(i);
  }
  starts.push_back(count);
  return starts;
}

std::vector<int64_t> group(const std::vector<Entry>& entries) {
  std::vector<int64_t> starts{0};
  for (size_t i = 1; i < entries.size(); ++i) {
    if (entries[i].key() != entries[i - 1].key()) starts.push_back(static_cast<int64_t>(i));
  }
  starts.push_back(static_cast<int64_t>(entries.size()));
  return starts;
}

std::vector<int64_t> all_examples(const TokenCache& cache) {
  std::vector<int64_t> examples(static_cast<size_t>(cache.size()));
  std::iota(examples.begin(), examples.end(), int64_t{0});
  return examples;
}

}  // namespace

BatchPlan::BatchPlan(const TokenCache& cache, std::span<const int64_t> examples, const BatchOptions& options)
    : options_(options) {
  require<ShapeError>(options.tokens >= 1 && options.sentences >= 0 && options.max_length >= 0,
                      "batches: expected tokens ≥ 1, sentences ≥ 0, max_length ≥ 0, got ", options.tokens, ", ",
                      options.sentences, ", ", options.max_length);
  std::vector<Entry> entries;
  entries.reserve(examples.size());
  for (const int64_t example : examples) {
    const Entry entry = measure(cache, example, options.labelled);
    if (options.max_length == 0 || entry.longer <= options.max_length) entries.push_back(entry);
  }
  left_out_ = static_cast<int64_t>(examples.size() - entries.size());
  require<ShapeError>(!entries.empty(), "batches: none of ", examples.size(), " examples is within max_length ",
                      options.max_length);
  std::ranges::stable_sort(entries, {}, &Entry::key);
  starts_ = cut(entries, options);
  groups_ = group(entries);
  examples_.reserve(entries.size());
  for (const Entry& entry : entries) examples_.push_back(entry.example);
}

BatchPlan::BatchPlan(const TokenCache& cache, const BatchOptions& options)
    : BatchPlan(cache, all_examples(cache), options) {}

Batches BatchPlan::epoch(int64_t number) const {
  require<ShapeError>(number >= 0, "batches: epochs are counted from 0, got ", number);
  Batches result;
  result.examples_ = examples_;
  result.starts_ = starts_;
  result.order_.resize(static_cast<size_t>(batches()));
  std::iota(result.order_.begin(), result.order_.end(), int64_t{0});
  if (!options_.shuffle) return result;
  // Batch boundaries are fixed; only examples with equal keys swap places.
  const RandomSource random{options_.seed, DataStream::examples, static_cast<uint64_t>(number)};
  const std::span examples(result.examples_);
  for (size_t i = 0; i + 1 < groups_.size(); ++i) {
    const auto begin = static_cast<size_t>(groups_[i]), end = static_cast<size_t>(groups_[i + 1]);
    shuffle(examples.subspan(begin, end - begin), random, begin);
  }
  shuffle(std::span(result.order_), {options_.seed, DataStream::batches, static_cast<uint64_t>(number)}, 0);
  return result;
}

std::span<const int64_t> Batches::operator[](int64_t batch) const {
  require<ShapeError>(batch >= 0 && batch < size(), "batches: expected a batch from 0 to ", size() - 1, ", got ",
                      batch);
  const auto at = static_cast<size_t>(order_[static_cast<size_t>(batch)]);
  return std::span(examples_).subspan(static_cast<size_t>(starts_[at]),
                                      static_cast<size_t>(starts_[at + 1] - starts_[at]));
}

}  // namespace attend
