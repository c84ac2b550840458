#include "grammar/token_strings.h"

#include <array>
#include <map>

namespace attend::grammar {
namespace {

using Node = TokenTrie::Node;

/// Finds the nodes of texts in a trie.
class Walker {
 public:
  explicit Walker(std::span<const Node> nodes) : nodes_(nodes) {
    first_.fill(nodes.size());
    for (size_t i = 0; i < nodes.size(); i = nodes[i].next) first_[nodes[i].byte] = i;
  }

  /// Calls `found(size)` for each token that `text` begins with.
  template <class Found>
  void tokens_of(std::string_view text, const Found& found) const {
    if (text.empty()) return;
    size_t at = first_[static_cast<uint8_t>(text[0])];
    for (size_t size = 1; at < nodes_.size(); ++size) {
      if (nodes_[at].token >= 0) found(size);
      if (size == text.size()) return;
      const size_t end = nodes_[at].next;
      const auto byte = static_cast<uint8_t>(text[size]);
      size_t child = at + 1;
      while (child < end && nodes_[child].byte != byte) child = nodes_[child].next;
      at = child < end ? child : nodes_.size();
    }
  }

  /// Whether shorter tokens write the text of a token.
  bool is_divisible(std::string_view text) {
    reached_.assign(text.size() + 1, false);
    reached_[0] = true;
    for (size_t from = 0; from < text.size() && !reached_[text.size()]; ++from) {
      if (!reached_[from]) continue;
      tokens_of(text.substr(from), [&](size_t size) {
        if (size < text.size()) reached_[from + size] = true;
      });
    }
    return reached_[text.size()];
  }

 private:
  std::span<const Node> nodes_;
  std::array<size_t, 256> first_{};  // node of each first byte
  std::vector<bool> reached_;
};

/// Builds the places from the last node to the first, so that a node's children come before it. Only tokens that no
/// shorter tokens write are needed.
class Builder {
 public:
  explicit Builder(const TokenTrie& trie) : trie_(trie), walker_(trie.nodes()) {}

  std::shared_ptr<const TokenStrings> build() {
    const std::span<const Node> nodes = trie_.nodes();
    inside_.assign(nodes.size(), kNone);
    ends_.assign(nodes.size(), false);
    result_.places.resize(1);
    for (size_t i = nodes.size(); i-- > 0;) {
      result_.bytes.set(nodes[i].byte);
      ends_[i] = nodes[i].token >= 0 && (nodes[i].depth == 0 || !walker_.is_divisible(trie_.bytes(nodes[i].token)));
      inside_[i] = place_of(edges(i + 1, nodes[i].next));
    }
    for (const auto& [to, on] : edges(0, nodes.size())) result_.places[0].push_back({on, to});
    return std::make_shared<const TokenStrings>(std::move(result_));
  }

 private:
  using Edges = std::map<int32_t, ByteSet>;
  static constexpr int32_t kNone = -1;

  /// The edges of a place whose children are the nodes from `begin` to `end`.
  Edges edges(size_t begin, size_t end) const {
    Edges result;
    const std::span<const Node> nodes = trie_.nodes();
    for (size_t child = begin; child < end; child = nodes[child].next) {
      if (ends_[child]) result[0].set(nodes[child].byte);
      if (inside_[child] != kNone) result[inside_[child]].set(nodes[child].byte);
    }
    return result;
  }

  int32_t place_of(const Edges& edges) {
    if (edges.empty()) return kNone;
    std::string key;
    for (const auto& [to, on] : edges) key += std::to_string(to) + ":" + on.to_string();
    const auto [found, is_new] = known_.try_emplace(std::move(key), static_cast<int32_t>(result_.places.size()));
    if (is_new) {
      auto& own = result_.places.emplace_back();
      for (const auto& [to, on] : edges) own.push_back({on, to});
    }
    return found->second;
  }

  const TokenTrie& trie_;
  Walker walker_;
  std::vector<int32_t> inside_;  // of each node: the place after it inside a longer token
  std::vector<bool> ends_;       // of each node: whether a needed token ends here
  std::map<std::string, int32_t> known_;
  TokenStrings result_;
};

}  // namespace

ByteSet TokenStrings::single_bytes() const {
  for (const Edge& edge : places[0]) {
    if (edge.to == 0) return edge.on;
  }
  return {};
}

std::shared_ptr<const TokenStrings> token_strings(const TokenTrie& trie) {
  const std::span<const Node> nodes = trie.nodes();
  size_t single = 0;
  for (size_t i = 0; i < nodes.size(); i = nodes[i].next) single += nodes[i].token >= 0 ? 1 : 0;
  return single == 256 ? nullptr : Builder(trie).build();
}

size_t written_prefix(const TokenTrie& trie, std::string_view text) {
  const Walker walker(trie.nodes());
  std::vector<bool> reached(text.size() + 1);
  reached[0] = true;
  size_t last = 0;
  for (size_t from = 0; from < text.size(); ++from) {
    if (!reached[from]) continue;
    last = from;
    walker.tokens_of(text.substr(from), [&](size_t size) { reached[from + size] = true; });
  }
  return reached[text.size()] ? text.size() : last;
}

}  // namespace attend::grammar
