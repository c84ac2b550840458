#include "attend/generate/generate_text.h"

#include <algorithm>
#include <optional>

#include "attend/autograd/autograd.h"
#include "attend/base/error.h"
#include "attend/base/threads.h"
#include "attend/generate/search.h"
#include "attend/generate/text_stream.h"
#include "attend/ops/softmax.h"
#include "attend/tensor/creation.h"
#include "generate/encode.h"
#include "generate/id_rows.h"
#include "generate/numbers.h"
#include "generate/reread.h"
#include "generate/score_rules.h"
#include "generate/top.h"

namespace attend {
namespace {

constexpr int64_t kUsualTokens = 200;

struct Setting {
  const LanguageModel& model;
  const Tokenizer& tokenizer;
  const GenerateOptions& options;
  const OnText& on_text;
  Vocabulary vocabulary;
};

/// One text in the making.
class Row {
 public:
  Row(const Setting& setting, GeneratedText& result, std::span<const int32_t> prompt)
      : setting_(setting),
        result_(result),
        history_(prompt.begin(), prompt.end()),
        window_(history_),
        limit_(most_tokens(setting.options, std::ssize(prompt))),
        rules_(setting.options.rules, setting.vocabulary, {.before = prompt, .source = prompt, .last = limit_ - 1}),
        stream_(setting.tokenizer, prompt),
        stops_(setting.options.stop) {
    result_.prompt_tokens = std::ssize(prompt);
    slide();
  }

  const std::vector<int32_t>& window() const { return window_; }
  bool is_done() const { return is_done_; }

  /// Draws the next word. Touches nothing but this row.
  void advance(std::span<const float> logits, const LogTerms& terms) {
    const auto log_probability = [&](size_t id) { return static_cast<double>(terms.log_probability(logits[id])); };
    require_number(log_probability(0), "generate");
    const auto written = std::ssize(result_.ids);
    const int32_t forced = rules_.forced(written), id = forced >= 0 ? forced : drawn(logits);
    if (forced < 0) result_.log_probability += log_probability(static_cast<size_t>(id));
    require_number(result_.log_probability, "generate");  // an infinite logit is the only one that has none
    piece_.clear();
    if (setting_.vocabulary.is_end(id) && !setting_.options.goes_past_end) {
      return finish(rules_.is_forced_last(written) ? Ending::length : Ending::end);
    }
    history_.push_back(id);
    window_.push_back(id);
    result_.ids.push_back(id);
    piece_ = stops_.push(stream_.push(id));
    if (stops_.is_stopped()) return finish(Ending::stop);
    if (std::ssize(result_.ids) >= limit_) finish(Ending::length);
  }

  /// Hands on what advance() wrote.
  void report() {
    result_.text += piece_;
    if (!setting_.on_text || setting_.on_text({result_.prompt, result_.copy, piece_})) return;
    if (!is_done_) result_.ending = Ending::callback;
    is_done_ = true;
  }

  /// Whether the window had to be cut: to the last half of the context.
  bool slide() {
    const int64_t context = setting_.model.context();
    if (std::ssize(window_) <= context) return false;
    window_.erase(window_.begin(), window_.end() - std::max<int64_t>(context / 2, 1));
    return true;
  }

 private:
  int32_t drawn(std::span<const float> logits) {
    if (ScoreRules::are_needed(setting_.options.rules)) {
      scores_.assign(logits.begin(), logits.end());
      rules_.apply(scores_, result_.ids);
      logits = scores_;
    }
    return draw({.logits = logits, .history = history_, .banned = setting_.vocabulary.banned},
                setting_.options.sampling,
                {.text = static_cast<uint64_t>(setting_.options.first_index + result_.prompt),
                 .copy = static_cast<uint32_t>(result_.copy),
                 .position = static_cast<uint32_t>(result_.ids.size())});
  }

  void finish(Ending ending) {
    is_done_ = true;
    result_.ending = ending;
    if (ending == Ending::stop) return;
    piece_ += stops_.push(stream_.finish());
    if (stops_.is_stopped()) result_.ending = Ending::stop;
    piece_ += stops_.finish();
  }

  const Setting& setting_;
  GeneratedText& result_;
  std::vector<int32_t> history_, window_;
  int64_t limit_;
  ScoreRules rules_;
  std::vector<float> scores_;  // logits after the rules
  TextStream stream_;
  StopFilter stops_;
  std::string piece_;
  bool is_done_ = false;
};

/// The texts that are written side by side, and the decoder they share.
class SideBySide {
 public:
  SideBySide(const Setting& setting, std::vector<Row> rows) : setting_(setting), rows_(std::move(rows)) {}

  void run() {
    while (!rows_.empty()) {
      step();
      for (Row& row : rows_) row.report();
      drop_finished();
      bool has_slid = false;
      for (Row& row : rows_) has_slid |= row.slide();
      if (has_slid) decoding_.reset();  // positions have changed: all is read again
    }
  }

 private:
  void step() {
    const NoGrad scope;
    const Tensor logits = to(next_logits(), DType::f32), terms = log_softmax_terms(logits);
    const auto stride = static_cast<size_t>(logits.dim(1)), words = static_cast<size_t>(setting_.vocabulary.size);
    parallel_for(std::ssize(rows_), [&](int64_t r) {
      const size_t first = static_cast<size_t>(r) * stride;
      rows_[static_cast<size_t>(r)].advance(logits.data<const float>().subspan(first, words),
                                            LogTerms::of(terms.data<const float>(), r));
    });
  }

  Tensor next_logits() {
    if (!decoding_) {
      decoding_ = setting_.options.use_cache ? setting_.model.start() : start_rereading(setting_.model);
      std::vector<std::vector<int32_t>> windows;
      for (const Row& row : rows_) windows.push_back(row.window());
      const IdRows read = pad_rows(windows);
      return decoding_->step(read.ids, read.lengths);
    }
    std::vector<int64_t> ids;
    for (const Row& row : rows_) ids.push_back(row.window().back());
    return decoding_->step(tensor<int64_t>(ids, {std::ssize(ids), 1}));
  }

  void drop_finished() {
    std::vector<int64_t> order;
    std::vector<Row> left;
    for (size_t r = 0; r < rows_.size(); ++r) {
      if (rows_[r].is_done()) continue;
      order.push_back(static_cast<int64_t>(r));
      left.push_back(std::move(rows_[r]));
    }
    if (!left.empty() && left.size() < rows_.size()) decoding_->select(order);
    rows_ = std::move(left);
  }

  const Setting& setting_;
  std::vector<Row> rows_;
  std::unique_ptr<Decoding> decoding_;
};

void check(const GenerateOptions& options) {
  check_sampling(options.sampling);
  const int64_t tokens = options.tokens.value_or(kUsualTokens);
  require<ShapeError>(tokens >= 1, "generate: tokens must be at least 1, got ", tokens);
  require<ShapeError>(options.copies >= 1, "generate: copies must be at least 1, got ", options.copies);
  require<ShapeError>(options.beam >= 1, "generate: beam must be at least 1, got ", options.beam);
  require<ShapeError>(options.beam == 1 || options.copies <= options.beam, "generate: ", options.copies,
                      " copies were asked for, but the beam keeps ", options.beam);
  require<ShapeError>(options.batch_rows >= 1, "generate: batch_rows must be at least 1, got ", options.batch_rows);
}

/// A hypothesis as a text, up to the first of the strings that end one.
void fill(GeneratedText& result, const Setting& setting, std::span<const int32_t> prompt, Hypothesis found) {
  TextStream stream(setting.tokenizer, prompt);
  StopFilter stops(setting.options.stop);
  for (const int32_t id : found.ids) result.text += stops.push(stream.push(id));
  result.text += stops.push(stream.finish());
  result.ending = stops.is_stopped() ? Ending::stop : found.is_cut ? Ending::length : Ending::end;
  result.text += stops.finish();
  result.ids = std::move(found.ids);
  result.log_probability = found.log_probability;
  result.prompt_tokens = std::ssize(prompt);
}

/// The best texts that a beam finds behind one prompt.
void search_texts(const Setting& setting, const std::vector<int32_t>& prompt, std::span<GeneratedText> results) {
  const GenerateOptions& options = setting.options;
  SearchOptions search_options = search_by(options.rules);
  search_options.beam = options.beam;
  search_options.n_best = options.copies;
  search_options.ends_at_limit = false;
  search_options.max_length = most_tokens(options, std::ssize(prompt));
  search_options.use_cache = options.use_cache;
  Vocabulary vocabulary = setting.vocabulary;
  if (options.goes_past_end) vocabulary.ends.clear();
  search(setting.model, vocabulary, std::span(&prompt, 1), search_options, [&](int64_t, std::vector<Hypothesis> best) {
    for (size_t i = 0; i < best.size(); ++i) fill(results[i], setting, prompt, std::move(best[i]));
  });
  for (GeneratedText& result : results) {
    if (setting.on_text && !setting.on_text({result.prompt, result.copy, result.text})) return;
  }
}

}  // namespace

int64_t most_tokens(const GenerateOptions& options, int64_t prompt_tokens) {
  if (options.tokens) return *options.tokens;
  if (options.rules.max_new > 0) return options.rules.max_new;
  const int64_t room = options.rules.max_length - prompt_tokens;
  return room > 0 ? std::min(room, kUsualTokens) : kUsualTokens;
}

std::vector<GeneratedText> generate_text(const LanguageModel& model, const Tokenizer& tokenizer,
                                         std::span<const std::string> prompts, const GenerateOptions& options,
                                         const OnText& on_text) {
  check(options);
  const Setting setting{model, tokenizer, options, on_text,
                        Vocabulary::of(tokenizer, model.vocab_size(), options.rules)};
  std::vector<std::vector<int32_t>> starts;
  for (const std::string& prompt : prompts) starts.push_back(encode_prompt(tokenizer, prompt, options.rules));
  std::vector<GeneratedText> results;
  for (int64_t prompt = 0; prompt < std::ssize(prompts); ++prompt) {
    for (int64_t copy = 0; copy < options.copies; ++copy) results.push_back({.prompt = prompt, .copy = copy});
  }
  if (options.beam > 1) {
    const auto copies = static_cast<size_t>(options.copies);
    for (size_t i = 0; i < starts.size(); ++i) {
      search_texts(setting, starts[i], std::span(results).subspan(i * copies, copies));
    }
    return results;
  }
  for (size_t begin = 0; begin < results.size(); begin += static_cast<size_t>(options.batch_rows)) {
    const size_t end = std::min(begin + static_cast<size_t>(options.batch_rows), results.size());
    std::vector<Row> rows;
    for (size_t i = begin; i < end; ++i) {
      rows.emplace_back(setting, results[i], starts[static_cast<size_t>(results[i].prompt)]);
    }
    SideBySide(setting, std::move(rows)).run();
  }
  return results;
}

std::string generate_text(const LanguageModel& model, const Tokenizer& tokenizer, const std::string& prompt,
                          const GenerateOptions& options) {
  return generate_text(model, tokenizer, std::span(&prompt, 1), options)[0].text;
}

}  // namespace attend
