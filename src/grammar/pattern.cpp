#include "grammar/pattern.h"

#include <algorithm>
#include <map>

#include "attend/base/error.h"
#include "attend/text/utf8.h"
#include "grammar/pattern_parser.h"
#include "io/printable.h"

namespace attend::grammar {
namespace {

constexpr size_t kMostNfaStates = 20'000, kMostDfaStates = 4'000;
constexpr int64_t kMostWork = 20'000'000;  // visits of NFA states

/// A nondeterministic automaton. Each state moves to its targets without reading, or reads one code point.
struct Nfa {
  enum class Kind { free, set, begin, end, match };
  struct State {
    Kind kind = Kind::free;
    size_t set = 0;  // index of sets
    std::vector<int32_t> to{};
  };
  std::vector<State> states;
  std::vector<CodePoints> sets;
  std::map<CodePoints, size_t> set_index;

  int32_t add(State state) {
    require<FormatError>(states.size() < kMostNfaStates, "more than ", kMostNfaStates, " states");
    states.push_back(std::move(state));
    return static_cast<int32_t>(states.size() - 1);
  }

  int32_t add_set(const CodePoints& set, int32_t next) {
    const auto [found, is_new] = set_index.try_emplace(set, sets.size());
    if (is_new) sets.push_back(set);
    return add({.kind = Kind::set, .set = found->second, .to = {next}});
  }

  /// The first state of `node`, which continues with the state `next`.
  int32_t build(const PatternNode& node, int32_t next) {
    switch (node.kind) {
      case PatternNode::Kind::set:
        return add_set(node.set, next);
      case PatternNode::Kind::begin:
        return add({.kind = Kind::begin, .to = {next}});
      case PatternNode::Kind::end:
        return add({.kind = Kind::end, .to = {next}});
      case PatternNode::Kind::sequence:
        for (auto child = node.children.rbegin(); child != node.children.rend(); ++child) next = build(*child, next);
        return next;
      case PatternNode::Kind::choice: {
        State result;
        for (const PatternNode& child : node.children) result.to.push_back(build(child, next));
        return add(std::move(result));
      }
      case PatternNode::Kind::repeat:
        return build_repeat(node, next);
    }
    return next;
  }

  int32_t build_repeat(const PatternNode& node, int32_t next) {
    const PatternNode& item = node.children[0];
    int32_t first = next;
    if (node.most < 0) {
      first = add({.to = {next}});
      const int32_t body = build(item, first);
      states[static_cast<size_t>(first)].to.push_back(body);
    }
    for (int64_t i = node.least; i < node.most; ++i) first = add({.to = {build(item, first), next}});
    for (int64_t i = 0; i < node.least; ++i) first = build(item, first);
    return first;
  }
};

/// Builds the DFA whose states are sets of NFA states.
class SubsetConstruction {
 public:
  SubsetConstruction(const Nfa& nfa, int32_t start) : nfa_(nfa), parts_(partition(nfa.sets)) {
    for (const CodePoints& set : nfa.sets) {
      auto& own = parts_of_.emplace_back();
      for (size_t i = 0; i < parts_.size(); ++i) own.push_back(set.contains(parts_[i].ranges()[0].first));
    }
    seen_.resize(nfa.states.size());
    find({start}, true);
  }

  Dfa build() {
    for (size_t s = 0; s < sets_.size(); ++s) expand(s);
    return pruned(dfa_);
  }

 private:
  using Set = std::vector<int32_t>;

  /// The states that are reached without reading. The start of the text is passed only with `at_start`, its end only
  /// with `at_end`.
  Set closure(const Set& from, bool at_start, bool at_end) {
    Set result, list = from;
    ++round_;
    while (!list.empty()) {
      const int32_t index = list.back();
      list.pop_back();
      if (std::exchange(seen_[static_cast<size_t>(index)], round_) == round_) continue;
      require<FormatError>(++work_ <= kMostWork, "too many combinations");
      const Nfa::State& state = nfa_.states[static_cast<size_t>(index)];
      const bool passes = state.kind == Nfa::Kind::free || (state.kind == Nfa::Kind::begin && at_start) ||
                          (state.kind == Nfa::Kind::end && at_end);
      if (passes) list.insert(list.end(), state.to.begin(), state.to.end());
      if (state.kind == Nfa::Kind::match) return {index};  // anything may follow a match
      if (state.kind == Nfa::Kind::set || state.kind == Nfa::Kind::end) result.push_back(index);
    }
    std::ranges::sort(result);
    return result;
  }

  bool is_match(const Set& set) const {
    return set.size() == 1 && nfa_.states[static_cast<size_t>(set[0])].kind == Nfa::Kind::match;
  }

  int32_t find(const Set& from, bool at_start) {
    // Only the empty text is at its start and at its end.
    const Set own = closure(from, at_start, false);
    const bool accepts = is_match(own) || is_match(closure(at_start ? from : own, at_start, true));
    const auto [found, is_new] = index_.try_emplace({own, accepts}, static_cast<int32_t>(sets_.size()));
    if (is_new) {
      require<FormatError>(sets_.size() < kMostDfaStates, "more than ", kMostDfaStates, " states");
      sets_.push_back(own);
      dfa_.states.push_back({.edges = {}, .accepts = accepts});
    }
    return found->second;
  }

  void expand(size_t s) {
    const Set own = sets_[s];
    if (is_match(own)) {
      dfa_.states[s].edges = {{CodePoints::all(), static_cast<int32_t>(s)}};
      return;
    }
    std::map<int32_t, CodePoints> edges;
    for (size_t part = 0; part < parts_.size(); ++part) {
      Set next;
      for (const int32_t index : own) {
        const Nfa::State& state = nfa_.states[static_cast<size_t>(index)];
        if (state.kind == Nfa::Kind::set && parts_of_[state.set][part]) next.push_back(state.to[0]);
      }
      work_ += std::ssize(own);
      if (!next.empty()) edges[find(next, false)].add(parts_[part]);
    }
    for (auto& [to, on] : edges) dfa_.states[s].edges.push_back({std::move(on), to});
  }

  const Nfa& nfa_;
  std::vector<CodePoints> parts_;
  std::vector<std::vector<bool>> parts_of_;  // [set, part]: whether the part is in the set
  std::vector<Set> sets_;
  std::map<std::pair<Set, bool>, int32_t> index_;
  Dfa dfa_;
  std::vector<uint32_t> seen_;
  uint32_t round_ = 0;
  int64_t work_ = 0;
};

}  // namespace

bool Dfa::matches(std::u32string_view text) const {
  size_t state = 0;
  for (const char32_t code : text) {
    const auto edge = std::ranges::find_if(states[state].edges, [&](const Edge& one) { return one.on.contains(code); });
    if (edge == states[state].edges.end()) return false;
    state = static_cast<size_t>(edge->to);
  }
  return states[state].accepts;
}

Dfa pruned(const Dfa& dfa) {
  std::vector<std::vector<size_t>> sources(dfa.states.size());
  std::vector<size_t> list;
  std::vector<int32_t> kept(dfa.states.size(), -1);
  for (size_t s = 0; s < dfa.states.size(); ++s) {
    if (dfa.states[s].accepts) list.push_back(s), kept[s] = 0;
    for (const Dfa::Edge& edge : dfa.states[s].edges) sources[static_cast<size_t>(edge.to)].push_back(s);
  }
  while (!list.empty()) {
    const size_t s = list.back();
    list.pop_back();
    for (const size_t source : sources[s]) {
      if (kept[source] < 0) list.push_back(source), kept[source] = 0;
    }
  }
  require<FormatError>(!kept.empty() && kept[0] == 0, "no text matches");
  int32_t count = 0;
  for (int32_t& one : kept) one = one < 0 ? -1 : count++;
  Dfa result;
  for (size_t s = 0; s < dfa.states.size(); ++s) {
    if (kept[s] < 0) continue;
    Dfa::State& own = result.states.emplace_back(Dfa::State{.edges = {}, .accepts = dfa.states[s].accepts});
    for (const Dfa::Edge& edge : dfa.states[s].edges) {
      const int32_t to = kept[static_cast<size_t>(edge.to)];
      if (to >= 0 && !edge.on.empty()) own.edges.push_back({edge.on, to});
    }
  }
  return result;
}

Dfa compile_pattern(std::string_view pattern) {
  const PatternNode root = parse_pattern(pattern);
  try {
    Nfa nfa;
    const int32_t match = nfa.add({.kind = Nfa::Kind::match});
    const int32_t body = nfa.build(root, match);
    const int32_t start = nfa.add({.to = {body}});
    const int32_t any = nfa.add_set(CodePoints::all(), start);  // text before the match
    nfa.states[static_cast<size_t>(start)].to.push_back(any);
    return SubsetConstruction(nfa, start).build();
  } catch (const FormatError& error) {
    throw_error<FormatError>("pattern ", in_quotes(pattern), " cannot be used: ", error.what());
  }
}

Dfa texts_except(const std::vector<std::string>& texts) {
  // A trie of the texts; state 1 is all other texts.
  std::vector<std::map<char32_t, int32_t>> trie(2);
  std::vector<bool> is_text(2);
  for (const std::string& text : texts) {
    size_t at = 0;
    for (const char32_t code : code_points(text)) {
      const auto [next, is_new] = trie[at].try_emplace(code, static_cast<int32_t>(trie.size()));
      at = static_cast<size_t>(next->second);
      if (is_new) trie.emplace_back(), is_text.push_back(false);
    }
    is_text[at] = true;
  }
  Dfa result;
  for (size_t s = 0; s < trie.size(); ++s) {
    Dfa::State& own = result.states.emplace_back(Dfa::State{.edges = {}, .accepts = !is_text[s]});
    CodePoints known;
    for (const auto& [code, to] : trie[s]) {
      own.edges.push_back({{{code, code}}, to});
      known.add({code, code});
    }
    own.edges.push_back({known.complement(), 1});
  }
  return result;
}

Dfa with_length(const Dfa& dfa, int64_t least, std::optional<int64_t> most) {
  const int64_t last = most ? *most : least;  // beyond, only the states of `dfa` matter
  Dfa result;
  std::map<std::pair<int32_t, int64_t>, int32_t> index;
  std::vector<std::pair<int32_t, int64_t>> list;
  const auto find = [&](int32_t state, int64_t length) {
    const auto [found, is_new] = index.try_emplace({state, length}, static_cast<int32_t>(list.size()));
    if (is_new) {
      require<FormatError>(list.size() < 5 * kMostDfaStates, "the schema is too large: a pattern with a length has ",
                           "more than ", 5 * kMostDfaStates, " states");
      list.emplace_back(state, length);
      const bool accepts = dfa.states[static_cast<size_t>(state)].accepts && length >= least;
      result.states.push_back({.edges = {}, .accepts = accepts});
    }
    return found->second;
  };
  find(0, 0);
  for (size_t s = 0; s < list.size(); ++s) {
    const auto [state, length] = list[s];
    if (most && length == *most) continue;
    for (const Dfa::Edge& edge : dfa.states[static_cast<size_t>(state)].edges) {
      const int32_t to = find(edge.to, most ? length + 1 : std::min(length + 1, last));
      result.states[s].edges.push_back({edge.on, to});
    }
  }
  return pruned(result);
}

}  // namespace attend::grammar
