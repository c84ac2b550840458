#include "attend/inspect/detect.h"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <set>

#include "attend/autograd/autograd.h"
#include "attend/base/error.h"
#include "attend/base/random.h"
#include "attend/generate/vocabulary.h"
#include "attend/inspect/heads.h"
#include "attend/tensor/creation.h"
#include "inspect/summaries.h"
#include "inspect/watcher.h"
#include "text/framing.h"

namespace attend {
namespace {

constexpr int64_t kMostRows = 1024, kFarthest = 8, kOffsets = 2 * kFarthest + 1;

size_t at(HeadKind kind) { return static_cast<size_t>(kind); }

/// What the detectors know of a side's tokens.
struct Tokens {
  std::vector<int32_t> ids;
  std::vector<uint8_t> is_separator;
};

Tokens tokens_of(const RunSide& side) {
  Tokens result;
  for (const ShownToken& token : side.tokens) {
    const bool is_mark = token.text.size() == 1 && std::ispunct(static_cast<unsigned char>(token.text[0])) != 0;
    const bool is_wide_mark = token.text == "。" || token.text == "，" || token.text == "！" || token.text == "？" ||
                              token.text == "、" || token.text == "；" || token.text == "：";
    result.ids.push_back(token.id);
    result.is_separator.push_back(token.kind == TokenKind::special || is_mark || is_wide_mark);
  }
  return result;
}

/// A sum of weights and the number of queries that contributed.
struct Mean {
  double sum = 0;
  int64_t count = 0;
  void add(double value) { sum += value, ++count; }
  std::optional<double> value() const {
    return count > 0 ? std::optional(sum / static_cast<double>(count)) : std::nullopt;
  }
};

/// For each query of cross-attention: whether a source token belongs to the linked word.
using Links = std::vector<std::vector<int64_t>>;

class HeadMeter {
 public:
  HeadMeter(const RunAttention& attention, const Tokens& queries, const Tokens& keys, const Links& links)
      : attention_(attention), queries_(queries), keys_(keys), links_(links) {}

  std::vector<HeadScores> measure(bool is_probe) {
    const int64_t heads = attention_.heads(), rows = attention_.queries(), width = attention_.keys();
    means_.assign(static_cast<size_t>(heads), {});
    offsets_.assign(static_cast<size_t>(heads * kOffsets), {});
    sweep_rows(attention_, {}, {std::max<int64_t>(rows - kMostRows, 0), rows},
               [&](RowRange range, std::span<const float> weights) {
                 const int64_t count = range.end - range.begin;
                 for (int64_t i = 0; i < heads * count; ++i) {
                   read_row(static_cast<size_t>(i / count), range.begin + i % count,
                            weights.subspan(static_cast<size_t>(i * width), static_cast<size_t>(width)));
                 }
               });
    std::vector<HeadScores> result(static_cast<size_t>(heads));
    for (size_t head = 0; head < result.size(); ++head) {
      auto& scores = is_probe ? result[head].probe : result[head].text;
      for (size_t kind = 0; kind < kHeadKinds; ++kind) scores[kind] = means_[head][kind].value();
      if (attention_.is_cross) continue;
      for (int64_t d = 0; d < kOffsets; ++d) {
        const std::optional<double> mean = offsets_[head * kOffsets + static_cast<size_t>(d)].value();
        auto& best = scores[at(HeadKind::positional)];
        if (d - kFarthest == -1 || !mean || (best && *best >= *mean)) continue;
        best = mean;
        result[head].offset = d - kFarthest;
      }
    }
    return result;
  }

 private:
  void read_row(size_t head, int64_t row, std::span<const float> weights) {
    auto& means = means_[head];
    const auto weight = [&](int64_t key) { return static_cast<double>(weights[static_cast<size_t>(key)]); };
    const int64_t width = std::ssize(weights);
    const int64_t end = attention_.trace.options.causal ? std::min(row + 1, width) : width;
    if (attention_.is_cross || row > 0) means[at(HeadKind::first)].add(weight(0));
    double marks = 0;
    bool has_marks = false;
    for (int64_t key = 1; key < end; ++key) {
      const bool is_itself = !attention_.is_cross && key == row;  // not a sign of looking for separators
      if (!is_itself && keys_.is_separator[static_cast<size_t>(key)]) marks += weight(key), has_marks = true;
    }
    if (has_marks) means[at(HeadKind::separator)].add(marks);
    if (attention_.is_cross) {
      if (static_cast<size_t>(row) < links_.size() && !links_[static_cast<size_t>(row)].empty()) {
        double linked = 0;
        for (const int64_t key : links_[static_cast<size_t>(row)]) linked += weight(key);
        means[at(HeadKind::alignment)].add(linked);
      }
      return;
    }
    if (row > 0) means[at(HeadKind::previous)].add(weight(row - 1));
    for (int64_t d = -kFarthest; d <= kFarthest; ++d) {
      if (row + d < 0 || row + d >= end) continue;
      offsets_[head * kOffsets + static_cast<size_t>(d + kFarthest)].add(weight(row + d));
    }
    read_repeats(row, weight, means);
  }

  template <class Weight>
  void read_repeats(int64_t row, const Weight& weight, std::array<Mean, kHeadKinds>& means) const {
    const int32_t own = queries_.ids[static_cast<size_t>(row)];
    double same = 0, after = 0;
    bool has_same = false, has_after = false;
    for (int64_t key = 0; key < row; ++key) {
      if (keys_.ids[static_cast<size_t>(key)] != own) continue;
      same += weight(key), has_same = true;
      if (key + 1 < row) after += weight(key + 1), has_after = true;
    }
    if (has_same) means[at(HeadKind::duplicate)].add(same);
    if (has_after) means[at(HeadKind::induction)].add(after);
  }

  const RunAttention& attention_;
  const Tokens &queries_, &keys_;
  const Links& links_;
  std::vector<std::array<Mean, kHeadKinds>> means_;
  std::vector<Mean> offsets_;
};

/// Random text tokens, each once, then all of them again.
std::vector<int64_t> repeated_tokens(const InspectedModel& model, const DetectOptions& options, int64_t room) {
  std::vector<int64_t> usable;
  const int64_t words = std::min(model.tokenizer->size(), model.model->vocab_size());
  const int64_t wanted = std::min({options.length, room / 2, words});
  std::set<int64_t> tried;
  // Philox gives words of a pure function, so that the probe is the same on every machine.
  for (uint64_t i = 0; std::ssize(usable) < wanted && i < 64 * static_cast<uint64_t>(wanted) + 64; ++i) {
    const auto id = static_cast<int64_t>(philox(options.seed, i, 0)[0] % static_cast<uint64_t>(words));
    if (!tried.insert(id).second) continue;
    if (show_token(*model.tokenizer, static_cast<int32_t>(id)).kind == TokenKind::text) usable.push_back(id);
  }
  const size_t count = usable.size();
  for (size_t i = 0; i < count; ++i) usable.push_back(usable[i]);
  return usable;
}

Tensor row_of(const std::vector<int64_t>& ids) { return tensor<int64_t>(ids, {1, std::ssize(ids)}); }

Tokens plain_tokens(const std::vector<int64_t>& ids) {
  Tokens result;
  for (const int64_t id : ids) result.ids.push_back(static_cast<int32_t>(id));
  result.is_separator.assign(ids.size(), 0);
  return result;
}

/// The probe's attention and its tokens, one list for each side.
struct Probe {
  std::vector<RunAttention> attention;
  std::vector<Tokens> sides;
};

Probe probed(const InspectedModel& model, const DetectOptions& options) {
  Probe probe;
  if (!model.tokenizer) return probe;
  const NoGrad scope;
  const Model& own = *model.model;
  const RunOptions none;
  const auto* pair = dynamic_cast<const PairModel*>(&own);
  Watcher watcher(none, pair != nullptr);
  std::vector<int64_t> ids = repeated_tokens(model, options, own.context() - 2);
  if (ids.size() < 8) return probe;
  if (pair) {
    std::vector<int64_t> target = ids;
    target.insert(target.begin(), Vocabulary::of(*model.tokenizer, own.vocab_size(), model.rules).begin);
    pair->hidden({.source = row_of(ids), .source_lengths = {}, .target = row_of(target)}, {.observer = &watcher});
    probe.sides = {plain_tokens(ids), plain_tokens(target)};
  } else if (const auto* language = dynamic_cast<const LanguageModel*>(&own)) {
    const std::vector<int32_t> front = frame_prompt(*model.tokenizer, "", model.rules.as_transformers);
    ids.insert(ids.begin(), front.begin(), front.end());
    language->hidden(row_of(ids), {.observer = &watcher});
    probe.sides = {plain_tokens(ids)};
  } else if (const auto* encoder = dynamic_cast<const EncoderModel*>(&own)) {
    encoder->hidden({.ids = row_of(ids), .lengths = {}}, {.observer = &watcher});
    probe.sides = {plain_tokens(ids)};
  } else {
    return probe;
  }
  probe.attention = watcher.take_attention();
  return probe;
}

/// The source tokens of the word that each target position is linked to, by the model's word alignment.
Links links_of(const InspectedModel& model, const Run& run) {
  if (run.sides.size() < 2 || !has_alignment(run)) return {};
  const WordAlignment alignment = alignment_of(run, *model.tokenizer);
  const std::vector<ShownToken>&source = run.sides[0].tokens, &target = run.sides[1].tokens;
  Links links(target.size());
  for (size_t row = 0; row + 1 < target.size(); ++row) {  // a query predicts the token after it
    for (const auto& [from, to] : alignment.links) {
      if (to != target[row + 1].word || target[row + 1].word < 0) continue;
      for (size_t key = 0; key < source.size(); ++key) {
        if (source[key].word == from) links[row].push_back(static_cast<int64_t>(key));
      }
    }
  }
  return links;
}

void name_kinds(HeadScores& scores, double threshold) {
  std::vector<std::pair<double, HeadKind>> found;
  for (size_t kind = 0; kind < kHeadKinds; ++kind) {
    const auto& score = scores.probe[kind] ? scores.probe[kind] : scores.text[kind];
    if (score && *score >= threshold) found.emplace_back(-*score, static_cast<HeadKind>(kind));
  }
  std::ranges::sort(found);
  for (const auto& [score, kind] : found) scores.kinds.push_back(kind);
}

}  // namespace

const char* name_of(HeadKind kind) {
  static constexpr std::array<const char*, kHeadKinds> kNames{"previous",  "duplicate",  "induction", "first",
                                                              "separator", "positional", "alignment"};
  return kNames[at(kind)];
}

Detection detect_heads(const InspectedModel& model, const Run& run, const DetectOptions& options) {
  require<ShapeError>(options.threshold >= 0 && options.threshold <= 1, "detect: the threshold must be 0 to 1, got ",
                      options.threshold);
  require<ShapeError>(options.length >= 4 && options.length <= 512, "detect: the probe's length must be 4 to 512, got ",
                      options.length);
  Detection result{.heads = {}, .threshold = options.threshold};
  std::vector<Tokens> sides;
  for (const RunSide& side : run.sides) sides.push_back(tokens_of(side));
  const Links links = links_of(model, run);
  const Probe probe = probed(model, options);
  if (!probe.sides.empty()) result.probe_tokens = std::ssize(probe.sides[0].ids);
  for (size_t a = 0; a < run.attention.size(); ++a) {
    const RunAttention& own = run.attention[a];
    const auto query = static_cast<size_t>(own.query_side), key = static_cast<size_t>(own.key_side);
    std::vector<HeadScores> heads = HeadMeter(own, sides[query], sides[key], links).measure(false);
    if (a < probe.attention.size() && !own.is_cross) {
      const auto measured = HeadMeter(probe.attention[a], probe.sides[query], probe.sides[key], {}).measure(true);
      for (size_t head = 0; head < heads.size(); ++head) {
        heads[head].probe = measured[head].probe;
        heads[head].offset = measured[head].offset;
      }
    }
    for (size_t head = 0; head < heads.size(); ++head) {
      heads[head].attention = static_cast<int64_t>(a);
      heads[head].head = static_cast<int64_t>(head);
      name_kinds(heads[head], options.threshold);
      result.heads.push_back(std::move(heads[head]));
    }
  }
  return result;
}

}  // namespace attend
