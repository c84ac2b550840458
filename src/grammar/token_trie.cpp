#include "attend/grammar/token_trie.h"

#include <algorithm>
#include <numeric>

#include "grammar/token_bytes.h"
#include "grammar/token_strings.h"

namespace attend {
namespace {

constexpr size_t kLongestToken = 255;  // a node's depth is one byte; longer tokens are never written

}  // namespace

TokenTrie::TokenTrie(const Tokenizer& tokenizer) : TokenTrie(grammar::token_bytes(tokenizer)) {}

TokenTrie::TokenTrie(std::vector<std::string> bytes) : bytes_(std::move(bytes)), same_(bytes_.size(), -1) {
  std::vector<int32_t> order(bytes_.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {},
                           [&](int32_t id) -> const std::string& { return bytes_[static_cast<size_t>(id)]; });
  std::vector<size_t> open;  // nodes of the last token
  std::string_view last;
  int32_t last_token = -1;
  const auto close = [&](size_t depth) {
    for (; open.size() > depth; open.pop_back()) nodes_[open.back()].next = static_cast<uint32_t>(nodes_.size());
  };
  for (const int32_t id : order) {
    std::string& own = bytes_[static_cast<size_t>(id)];
    if (own.size() > kLongestToken) own.clear();
    if (own.empty()) continue;
    if (own == last) {
      same_[static_cast<size_t>(last_token)] = id;
    } else {
      const auto shared = static_cast<size_t>(std::ranges::mismatch(own, last).in1 - own.begin());
      close(shared);
      for (size_t depth = shared; depth < own.size(); ++depth) {
        open.push_back(nodes_.size());
        nodes_.push_back({.byte = static_cast<uint8_t>(own[depth]), .depth = static_cast<uint8_t>(depth)});
      }
      nodes_.back().token = id;
    }
    last = own;
    last_token = id;
  }
  close(0);
  strings_ = grammar::token_strings(*this);
}

std::string_view TokenTrie::bytes(int32_t token) const {
  return token >= 0 && token < size() ? std::string_view(bytes_[static_cast<size_t>(token)]) : std::string_view();
}

}  // namespace attend
