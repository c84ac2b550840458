#include "text/sentencepiece/sentencepiece_bpe.h"

#include <queue>
#include <unordered_map>

#include "text/unicode.h"

namespace attend::text {
namespace {

constexpr uint32_t kEnd = 0xffffffffu;

struct Symbol {
  std::string_view text;  // empty once joined to the previous symbol
  uint32_t previous = kEnd, next = kEnd;
  bool frozen = false;  // user-defined, never joined
};

struct Candidate {
  float score = 0;
  uint32_t left = 0, right = 0;
  size_t size = 0;  // of the joined text; the candidate is stale if the current size differs
  bool operator<(const Candidate& other) const {
    return score != other.score ? score < other.score : left > other.left;
  }
};

/// The state of one encoding.
class Run {
 public:
  using Find = std::function<int32_t(std::string_view)>;
  Run(std::vector<Symbol> symbols, const SentencePieceProto& proto, Find find)
      : symbols_(std::move(symbols)), proto_(proto), find_(std::move(find)) {}

  void merge() {
    for (uint32_t i = 1; i < symbols_.size(); ++i) consider(i - 1, i);
    while (!heap_.empty()) {
      const Candidate best = heap_.top();
      heap_.pop();
      Symbol &left = symbols_[best.left], &right = symbols_[best.right];
      if (left.text.empty() || right.text.empty() || left.text.size() + right.text.size() != best.size) continue;
      left.text = {left.text.data(), best.size};
      left.next = right.next;
      if (right.next != kEnd) symbols_[right.next].previous = best.left;
      right.text = {};
      consider(left.previous, best.left);
      consider(best.left, left.next);
    }
  }

  /// Visits the resulting pieces. Pieces marked unused serve only as steps to longer ones; they are split again.
  void visit_all(const SentencePieceModel::Visit& visit) const {
    for (uint32_t i = 0; i != kEnd && !symbols_.empty(); i = symbols_[i].next) take_apart(symbols_[i].text, visit);
  }

 private:
  bool is_unused(int32_t id) const {
    return id != kNone && proto_.pieces[static_cast<size_t>(id)].type == SentencePieceProto::Type::unused;
  }

  void consider(uint32_t left, uint32_t right) {
    if (left == kEnd || right == kEnd || symbols_[left].frozen || symbols_[right].frozen) return;
    const std::string_view first = symbols_[left].text, second = symbols_[right].text;
    const std::string_view joined(first.data(), first.size() + second.size());
    const int32_t id = find_(joined);
    if (id == kNone) return;
    heap_.push({proto_.pieces[static_cast<size_t>(id)].score, left, right, joined.size()});
    if (is_unused(id)) parts_[joined] = first.size();
  }

  void take_apart(std::string_view text, const SentencePieceModel::Visit& visit) const {
    std::vector<std::string_view> left{text};  // a stack instead of recursion, because pieces may be long
    while (!left.empty()) {
      const std::string_view piece = left.back();
      left.pop_back();
      const int32_t id = find_(piece);
      const auto found = is_unused(id) ? parts_.find(piece) : parts_.end();
      if (found == parts_.end()) {
        visit(piece, id);
      } else {
        left.push_back(piece.substr(found->second));
        left.push_back(piece.substr(0, found->second));
      }
    }
  }

  std::vector<Symbol> symbols_;
  const SentencePieceProto& proto_;
  Find find_;
  std::priority_queue<Candidate> heap_;
  std::unordered_map<std::string_view, size_t> parts_;  // of unused pieces: the size of the left part
};

}  // namespace

void SentencePieceBpe::encode(std::string_view text, const SentencePieceModel::Visit& visit) const {
  std::vector<Symbol> symbols;
  while (!text.empty()) {
    const size_t defined = model_.user_defined_.longest_prefix(text).length;
    const size_t length = defined > 0 ? defined : utf8_length(text[0]);
    const auto index = static_cast<uint32_t>(symbols.size());
    if (index > 0) symbols.back().next = index;
    symbols.push_back({text.substr(0, length), index == 0 ? kEnd : index - 1, kEnd, defined > 0});
    text.remove_prefix(length);
  }
  Run run(std::move(symbols), model_.proto_,
          [this](std::string_view piece) { return model_.segmentable_.find(piece); });
  run.merge();
  run.visit_all(visit);
}

}  // namespace attend::text
