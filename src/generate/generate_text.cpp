#include "attend/generate/generate_text.h"

#include <algorithm>
#include <optional>

#include "attend/autograd/autograd.h"
#include "attend/base/error.h"
#include "attend/base/threads.h"
#include "attend/generate/text_stream.h"
#include "attend/ops/softmax.h"
#include "attend/tensor/creation.h"
#include "generate/encode.h"
#include "generate/id_rows.h"
#include "generate/reread.h"
#include "generate/top.h"

namespace attend {
namespace {

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
        stream_(setting.tokenizer, prompt),
        stops_(setting.options.stop) {
    result_.prompt_tokens = std::ssize(prompt);
    slide();
  }

  const std::vector<int32_t>& window() const { return window_; }
  bool is_done() const { return is_done_; }

  /// Draws the next word. Touches nothing but this row.
  void advance(std::span<const float> logits, std::span<const float> log_probabilities) {
    const int32_t id =
        draw({.logits = logits, .history = history_, .banned = setting_.vocabulary.banned}, setting_.options.sampling,
             {.text = static_cast<uint64_t>(setting_.options.first_index + result_.prompt),
              .copy = static_cast<uint32_t>(result_.copy),
              .position = static_cast<uint32_t>(result_.ids.size())});
    result_.log_probability += static_cast<double>(log_probabilities[static_cast<size_t>(id)]);
    piece_.clear();
    if (setting_.vocabulary.is_end(id) && !setting_.options.goes_past_end) return finish(Ending::end);
    history_.push_back(id);
    window_.push_back(id);
    result_.ids.push_back(id);
    piece_ = stops_.push(stream_.push(id));
    if (stops_.is_stopped()) return finish(Ending::stop);
    if (std::ssize(result_.ids) >= setting_.options.tokens) finish(Ending::length);
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
    const Tensor logits = to(next_logits(), DType::f32), log_probabilities = log_softmax(logits);
    const auto stride = static_cast<size_t>(logits.dim(1)), words = static_cast<size_t>(setting_.vocabulary.words);
    parallel_for(std::ssize(rows_), [&](int64_t r) {
      const size_t first = static_cast<size_t>(r) * stride;
      rows_[static_cast<size_t>(r)].advance(logits.data<const float>().subspan(first, words),
                                            log_probabilities.data<const float>().subspan(first, words));
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
  require<ShapeError>(options.tokens >= 1, "generate: tokens must be at least 1, got ", options.tokens);
  require<ShapeError>(options.copies >= 1, "generate: copies must be at least 1, got ", options.copies);
  require<ShapeError>(options.batch_rows >= 1, "generate: batch_rows must be at least 1, got ", options.batch_rows);
}

}  // namespace

std::vector<GeneratedText> generate_text(const LanguageModel& model, const Tokenizer& tokenizer,
                                         std::span<const std::string> prompts, const GenerateOptions& options,
                                         const OnText& on_text) {
  check(options);
  const Setting setting{model, tokenizer, options, on_text, Vocabulary::of(tokenizer, model.words(), options.rules)};
  std::vector<std::vector<int32_t>> starts;
  for (const std::string& prompt : prompts) starts.push_back(encode_prompt(tokenizer, prompt, options.rules));
  std::vector<GeneratedText> results;
  for (int64_t prompt = 0; prompt < std::ssize(prompts); ++prompt) {
    for (int64_t copy = 0; copy < options.copies; ++copy) results.push_back({.prompt = prompt, .copy = copy});
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
