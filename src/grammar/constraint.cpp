#include "attend/grammar/constraint.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <unordered_map>

#include "attend/base/error.h"
#include "grammar/automaton.h"
#include "grammar/restriction.h"

namespace attend {
namespace {

using grammar::Automaton;

constexpr size_t kMostMaskBytes = 64'000'000;  // kept masks of one constraint
constexpr size_t kMostConstraints = 32;        // of a ConstraintCache

/// The tokens that lead from a state to another. Walks the trie and skips the descendants of dead nodes.
TokenMask mask_of(Automaton& automaton, int32_t state, const TokenTrie& trie) {
  TokenMask mask{.words = std::vector<uint64_t>(static_cast<size_t>(trie.size() + 63) / 64)};
  std::array<int32_t, 257> states;  // before each byte of the current token
  states[0] = state;
  const std::span<const TokenTrie::Node> nodes = trie.nodes();
  for (size_t i = 0; i < nodes.size();) {
    const TokenTrie::Node& node = nodes[i];
    const int32_t next = automaton.next(states[node.depth], node.byte);
    if (next == Automaton::kDead) {
      i = node.next;
      continue;
    }
    states[node.depth + size_t{1}] = next;
    const bool is_token = node.token >= 0 && automaton.between_tokens(next) != Automaton::kDead;
    for (int32_t id = is_token ? node.token : -1; id >= 0; id = trie.same(id)) {
      mask.words[static_cast<size_t>(id) / 64] |= uint64_t{1} << (id % 64);
      ++mask.count;
    }
    ++i;
  }
  return mask;
}

}  // namespace

bool TokenMask::allows(int32_t id) const {
  const auto word = static_cast<size_t>(id) / 64;
  return id >= 0 && word < words.size() && (words[word] >> (id % 64) & 1) != 0;
}

void TokenMask::apply(std::span<float> scores) const {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  for (size_t begin = 0; begin < scores.size(); begin += 64) {
    const size_t size = std::min<size_t>(64, scores.size() - begin);
    const uint64_t word = begin / 64 < words.size() ? words[begin / 64] : 0;
    if (word == 0) {
      std::fill_n(scores.data() + begin, size, kNever);
      continue;
    }
    // Most words of a mask have few tokens, or lack few.
    for (uint64_t others = ~word; others != 0; others &= others - 1) {
      const auto i = static_cast<size_t>(std::countr_zero(others));
      if (i >= size) break;
      scores[begin + i] = kNever;
    }
  }
}

struct Constraint::Memory {
  explicit Memory(const Grammar& grammar) : automaton(grammar.rules()) {}

  std::mutex mutex;
  Automaton automaton;
  std::unordered_map<int32_t, std::shared_ptr<const TokenMask>> masks;  // by state

  std::shared_ptr<const TokenMask> mask(int32_t state, const TokenTrie& trie) {
    const std::scoped_lock lock(mutex);
    if (const auto known = masks.find(state); known != masks.end()) return known->second;
    auto made = std::make_shared<const TokenMask>(mask_of(automaton, state, trie));
    if ((masks.size() + 1) * made->words.size() * sizeof(uint64_t) > kMostMaskBytes) masks.clear();
    masks.emplace(state, made);
    return made;
  }
};

Constraint::Constraint(Grammar grammar, std::shared_ptr<const TokenTrie> trie)
    : grammar_(std::move(grammar)), trie_(std::move(trie)), memory_(std::make_shared<Memory>(grammar_)) {}

Constraint::~Constraint() = default;

std::shared_ptr<const Constraint> Constraint::create(Grammar grammar, std::shared_ptr<const TokenTrie> trie) {
  if (const auto& strings = trie->strings()) grammar = grammar::restricted(grammar, *trie, *strings);
  const std::shared_ptr<const Constraint> result(new Constraint(std::move(grammar), std::move(trie)));
  const Cursor start = result->start();
  require<ConstraintError>(start.is_complete() || start.allowed()->count > 0,
                           "the vocabulary has no token that begins a text of this format");
  return result;
}

Constraint::Cursor Constraint::start() const {
  const std::scoped_lock lock(mutex_);
  return {shared_from_this(), memory_, memory_->automaton.start()};
}

/// The memory that replaces a full one.
std::shared_ptr<Constraint::Memory> Constraint::memory_after(const std::shared_ptr<Memory>& full) const {
  const std::scoped_lock lock(mutex_);
  if (memory_ == full) memory_ = std::make_shared<Memory>(grammar_);
  return memory_;
}

Constraint::Cursor::Cursor(std::shared_ptr<const Constraint> constraint, std::shared_ptr<Memory> memory, int32_t state)
    : constraint_(std::move(constraint)), memory_(std::move(memory)), state_(state) {
  const std::scoped_lock lock(memory_->mutex);
  look();
}

/// The memory must be locked.
void Constraint::Cursor::look() {
  is_complete_ = memory_->automaton.is_complete(state_);
  is_final_ = memory_->automaton.is_final(state_);
}

std::shared_ptr<const TokenMask> Constraint::Cursor::allowed() const {
  return memory_->mask(state_, *constraint_->trie_);
}

void Constraint::Cursor::push(int32_t id) {
  std::unique_lock lock(memory_->mutex);
  int32_t state = state_;
  for (const char byte : constraint_->trie_->bytes(id)) {
    state = memory_->automaton.next(state, static_cast<uint8_t>(byte));
    if (state == Automaton::kDead) break;
  }
  if (state != Automaton::kDead) state = memory_->automaton.between_tokens(state);
  require<Error>(state != Automaton::kDead, "constraint: token ", id, " is not allowed here");
  state_ = state;
  look();
  if (!memory_->automaton.is_full()) return;
  const std::shared_ptr<Memory> full = memory_;
  lock.unlock();
  memory_ = constraint_->memory_after(full);
  if (memory_ == full) return;
  const std::scoped_lock both(full->mutex, memory_->mutex);
  state_ = memory_->automaton.adopt(full->automaton, state_);
}

std::shared_ptr<const Constraint> ConstraintCache::find(const std::string& key) {
  const std::scoped_lock lock(mutex_);
  const auto found = std::ranges::find(newest_, key, [](const auto& one) -> const std::string& { return one.first; });
  if (found == newest_.end()) return nullptr;
  std::rotate(newest_.begin(), found, found + 1);
  return newest_.front().second;
}

std::shared_ptr<const TokenTrie> ConstraintCache::trie() {
  const std::scoped_lock lock(mutex_);
  if (!trie_) trie_ = std::make_shared<const TokenTrie>(tokenizer_);
  return trie_;
}

std::shared_ptr<const Constraint> ConstraintCache::add(const std::string& key, Grammar grammar) {
  auto made = Constraint::create(std::move(grammar), trie());
  const std::scoped_lock lock(mutex_);
  newest_.insert(newest_.begin(), {key, made});
  if (newest_.size() > kMostConstraints) newest_.pop_back();
  return made;
}

}  // namespace attend
