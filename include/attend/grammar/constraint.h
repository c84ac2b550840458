#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "attend/grammar/grammar.h"
#include "attend/grammar/token_trie.h"

namespace attend {

/// The tokens that may continue a text: bit id % 64 of words[id / 64].
struct TokenMask {
  std::vector<uint64_t> words;
  int64_t count = 0;  ///< number of tokens

  bool allows(int32_t id) const;
  /// Sets the scores of all other tokens to −∞.
  void apply(std::span<float> scores) const;
};

/// Limits generated texts to a grammar. Remembers the masks of states, for all texts that share it. Thread-safe.
class Constraint : public std::enable_shared_from_this<Constraint> {
 public:
  /// Throws ConstraintError, which names a missing character, if the tokens can write no text of the grammar.
  static std::shared_ptr<const Constraint> create(Grammar grammar, std::shared_ptr<const TokenTrie> trie);
  ~Constraint();

  struct Memory;  // src/grammar/constraint.cpp

  /// A text that is being written. Copies are cheap and independent.
  class Cursor {
   public:
    /// The tokens that may come next, without end tokens. Throws ConstraintError if the grammar exceeds the
    /// limits.
    std::shared_ptr<const TokenMask> allowed() const;
    /// Whether the text may end here.
    bool is_complete() const { return is_complete_; }
    /// Whether the text must end here.
    bool is_final() const { return is_final_; }
    /// Appends a token. A token that adds no bytes changes nothing. Throws Error if the token is not allowed.
    void push(int32_t id);

   private:
    friend class Constraint;
    Cursor(std::shared_ptr<const Constraint> constraint, std::shared_ptr<Memory> memory, int32_t state);
    void look();

    std::shared_ptr<const Constraint> constraint_;
    std::shared_ptr<Memory> memory_;
    int32_t state_ = 0;
    bool is_complete_ = false, is_final_ = false;
  };
  Cursor start() const;

 private:
  Constraint(Grammar grammar, std::shared_ptr<const TokenTrie> trie);
  std::shared_ptr<Memory> memory_after(const std::shared_ptr<Memory>& full) const;

  Grammar grammar_;
  std::shared_ptr<const TokenTrie> trie_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<Memory> memory_;  // replaced when it is full
};

/// The constraints of one tokenizer. Keeps the newest, so that requests with the same schema share their masks.
/// Thread-safe.
class ConstraintCache {
 public:
  /// Builds the trie when it is first needed. The tokenizer must outlive this object.
  explicit ConstraintCache(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  /// The constraint with this key, such as the text of a request's schema. `make` is called if there is none.
  template <class Make>
  std::shared_ptr<const Constraint> get(const std::string& key, const Make& make) {
    if (auto found = find(key)) return found;
    return add(key, make());
  }

 private:
  std::shared_ptr<const Constraint> find(const std::string& key);
  std::shared_ptr<const Constraint> add(const std::string& key, Grammar grammar);
  std::shared_ptr<const TokenTrie> trie();

  const Tokenizer& tokenizer_;
  std::mutex mutex_;
  std::shared_ptr<const TokenTrie> trie_;
  std::vector<std::pair<std::string, std::shared_ptr<const Constraint>>> newest_;  // last used first
};

}  // namespace attend
