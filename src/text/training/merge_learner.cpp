#include "text/training/merge_learner.h"

#include <algorithm>
#include <numeric>
#include <queue>
#include <utility>

#include "attend/base/error.h"

namespace attend::text {
namespace {

struct Pair {
  int32_t left = 0, right = 0;
  int64_t count = 0;
  std::vector<uint32_t> words{};  // words that may contain the pair
  bool learnt = false;            // a learnt pair can occur again if its parts are formed by other merges
};

/// A pair in the queue with its count at that time. Afterwards the count only falls, except for new pairs.
struct Queued {
  int64_t count = 0;
  int32_t left = 0, right = 0;
  uint32_t index = 0;
  bool operator<(const Queued& other) const {
    if (count != other.count) return count < other.count;
    return left != other.left ? left > other.left : right > other.right;
  }
};

class Learner {
 public:
  Learner(MergeTask task, Vocabulary& vocabulary) : task_(std::move(task)), vocabulary_(vocabulary) {
    for (uint32_t i = 0; i < task_.words.size(); ++i) {
      const auto& word = task_.words[i];
      for (size_t at = 0; at + 1 < word.size(); ++at) change(word[at], word[at + 1], task_.counts[i], i);
    }
    for (uint32_t index = 0; index < pairs_.size(); ++index) enqueue(index);
  }

  Merges run() {
    Merges learnt;
    while (!queue_.empty() && vocabulary_.size() < task_.vocabulary) {
      const Queued best = queue_.top();
      queue_.pop();
      const int64_t count = pairs_[best.index].count;
      if (count != best.count) {
        enqueue(best.index);
        continue;
      }
      const std::string left = vocabulary_.token(best.left), right = vocabulary_.token(best.right);
      if (!std::exchange(pairs_[best.index].learnt, true)) learnt.emplace_back(left, right);
      apply(best, id_of(task_.join(left, right)));
    }
    return learnt;
  }

 private:
  /// The id of a token, added if new: two different pairs may form the same token.
  int32_t id_of(const std::string& token) {
    if (const int32_t known = vocabulary_.find(token); known != kNone) return known;
    vocabulary_.add(token, vocabulary_.size());
    return static_cast<int32_t>(vocabulary_.size() - 1);
  }

  void enqueue(uint32_t index) {
    const Pair& pair = pairs_[index];
    if (pair.count >= task_.min_count) queue_.push({pair.count, pair.left, pair.right, index});
  }

  uint32_t change(int32_t left, int32_t right, int64_t by, uint32_t word) {
    const auto a = static_cast<uint32_t>(left), b = static_cast<uint32_t>(right);
    uint64_t index = indices_.find(a, b);
    if (index == PairTable::kAbsent) {
      index = pairs_.size();
      indices_.set(a, b, index);
      pairs_.push_back({left, right});
    }
    Pair& pair = pairs_[index];
    pair.count += by;
    if (by > 0 && (pair.words.empty() || pair.words.back() != word)) pair.words.push_back(word);
    return static_cast<uint32_t>(index);
  }

  void apply(const Queued& merged, int32_t id) {
    const std::vector<uint32_t> words = std::move(pairs_[merged.index].words);
    pairs_[merged.index].words.clear();
    grown_.clear();
    for (const uint32_t word : words) join_in(word, merged.left, merged.right, id);
    pairs_[merged.index].count = 0;  // all occurrences have been joined
    std::ranges::sort(grown_);
    const auto [first, last] = std::ranges::unique(grown_);
    grown_.erase(first, last);
    for (const uint32_t index : grown_) enqueue(index);
  }

  void join_in(uint32_t index, int32_t left, int32_t right, int32_t id) {
    std::vector<int32_t>& word = task_.words[index];
    const int64_t count = task_.counts[index];
    size_t out = 0;
    for (size_t at = 0; at < word.size(); ++at) {
      const bool here = word[at] == left && at + 1 < word.size() && word[at + 1] == right;
      if (!here) {
        word[out++] = word[at];
        continue;
      }
      if (out > 0) {
        change(word[out - 1], left, -count, index);
        grown_.push_back(change(word[out - 1], id, count, index));
      }
      if (at + 2 < word.size()) {
        change(right, word[at + 2], -count, index);
        grown_.push_back(change(id, word[at + 2], count, index));
      }
      word[out++] = id;
      ++at;
    }
    word.resize(out);
  }

  MergeTask task_;
  Vocabulary& vocabulary_;
  PairTable indices_;  // into pairs_
  std::vector<Pair> pairs_;
  std::vector<uint32_t> grown_;
  std::priority_queue<Queued> queue_;
};

}  // namespace

void WordCounts::add(std::string_view word, int64_t count) {
  int32_t index = indices_.find(word);
  if (index == StringTable::kAbsent) {
    require<Error>(indices_.bytes() + word.size() < 0xffffffffu,
                   "tokenizer: the corpus has over 4 GiB of distinct words");
    index = static_cast<int32_t>(words_.size());
    indices_.set(word, index);
    words_.emplace_back(word);
    counts_.push_back(0);
  }
  counts_[static_cast<size_t>(index)] += count;
}

std::vector<size_t> WordCounts::by_frequency() const {
  std::vector<size_t> order(size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, [&](size_t a, size_t b) {
    return counts_[a] != counts_[b] ? counts_[a] > counts_[b] : words_[a] < words_[b];
  });
  return order;
}

Merges learn_merges(MergeTask task, Vocabulary& vocabulary) { return Learner(std::move(task), vocabulary).run(); }

}  // namespace attend::text
