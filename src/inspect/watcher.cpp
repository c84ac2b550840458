#include "inspect/watcher.h"

#include <algorithm>
#include <cstdlib>

#include "attend/base/error.h"
#include "attend/ops/shape.h"
#include "attend/tensor/creation.h"

namespace attend {

AttentionPlace place_of(const std::string& path, bool is_pair) {
  AttentionPlace place;
  constexpr std::string_view kLayers = "layers.";
  if (const size_t at = path.find(kLayers); at != std::string::npos) {
    place.layer = std::strtoll(path.c_str() + at + kLayers.size(), nullptr, 10);
  }
  const std::string first = path.substr(0, path.find('.'));
  const bool is_recurrent = is_pair && first != "encoder" && first != "decoder";
  place.stack = first == "encoder" || first == "decoder" ? first : is_recurrent ? "rnn" : "stack";
  if (!is_pair || place.stack == "encoder") return place;
  place.query_side = 1;
  const bool is_cross = is_recurrent || path.ends_with("cross_attention");
  place.key_side = is_cross ? 0 : 1;
  return place;
}

Watcher::Seen& Watcher::seen(const std::string& path) {
  const auto [entry, is_new] = index_.try_emplace(path, seen_.size());
  if (is_new) seen_.push_back({.path = path, .traces = {}, .queries = {}, .keys = {}, .additive = {}});
  return seen_[entry->second];
}

void Watcher::attended(const AttentionTrace& trace) { seen(trace.path).traces.push_back(trace); }

void Watcher::computed(std::string_view what, const Tensor& value) {
  if (what == "query" || what == "key" || what == "score") {  // from BahdanauAttention
    Seen& entry = seen(path());
    if (what == "query") entry.queries.push_back(value.detach());
    if (what == "key") entry.keys = value.detach();
    if (what == "score") entry.additive = value.clone();  // training may change the parameter later
    return;
  }
  if (value.rank() != 3 || value.dim(0) != 1) return;
  const std::string name = path() + ":" + std::string(what);
  const Tensor rows = select(value.detach(), 0, 0);
  const auto [entry, is_new] = value_index_.try_emplace(name, values_.size());
  if (is_new) {
    values_.emplace_back(name, rows);
  } else {
    values_[entry->second].second = rows;
  }
}

Tensor Watcher::replacement(std::string_view what, const Tensor& value) {
  Tensor changed = apply_changes(changes_, path(), what, value);
  if (changed) computed(std::string(what) + "_unsteered", value);
  return changed;
}

Ablation Watcher::ablation() {
  seen(path());
  const auto index = static_cast<int64_t>(index_.at(path()));
  Ablation result;
  for (const AblatedHead& head : options_.heads) {
    if (head.attention == index) result.heads.push_back(head.head);
  }
  const int64_t side = place_of(path(), is_pair_).key_side;
  for (const AblatedToken& token : options_.tokens) {
    if (token.side == side) result.keys.push_back(token.index);
  }
  return result;
}

/// Joins the steps of a recurrent decoder, one row each, into one attention.
RunAttention Watcher::joined(Seen& seen) {
  RunAttention result;
  result.trace = seen.traces.front();
  std::vector<Tensor> q, lse, bias;
  for (const AttentionTrace& trace : seen.traces) {
    q.push_back(trace.q);
    lse.push_back(trace.lse);
    if (trace.options.bias) bias.push_back(trace.options.bias);
  }
  if (seen.additive) {  // scores are recomputed on demand, so memory stays linear
    result.additive = reshape(seen.additive, {-1});
    result.trace.q = unsqueeze(concat(seen.queries, 1), 1);
    result.trace.k = unsqueeze(seen.keys, 1);
    result.trace.options.bias = {};
    result.trace.lse = concat(lse, 2);
  } else if (seen.traces.size() > 1) {
    result.trace.q = concat(q, 2);
    result.trace.lse = concat(lse, 2);
    if (!bias.empty()) result.trace.options.bias = concat(bias, 2);
  }
  return result;
}

std::vector<RunAttention> Watcher::take_attention() {
  std::vector<RunAttention> result;
  std::erase_if(seen_, [](const Seen& seen) { return seen.traces.empty(); });
  for (Seen& entry : seen_) {
    RunAttention attention = joined(entry);
    const AttentionPlace place = place_of(entry.path, is_pair_);
    attention.stack = place.stack;
    attention.layer = place.layer;
    attention.query_side = place.query_side;
    attention.key_side = place.key_side;
    attention.is_cross = place.query_side != place.key_side;
    for (const AblatedHead& head : options_.heads) {
      if (head.attention == std::ssize(result)) attention.off.push_back(head.head);
    }
    std::ranges::sort(attention.off);
    result.push_back(std::move(attention));
  }
  for (const AblatedHead& head : options_.heads) {
    require<ShapeError>(head.attention >= 0 && head.attention < std::ssize(result), "ablation: there is no attention ",
                        head.attention, "; the model has ", result.size(), ", counted from 0");
  }
  return result;
}

}  // namespace attend
