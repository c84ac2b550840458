#include "attend/generate/translate.h"

#include "attend/base/error.h"
#include "text/framing.h"

namespace attend {
namespace {

/// Calls the callback in the order of the lines, whatever order they finish in.
class InOrder {
 public:
  InOrder(std::vector<TranslatedLine>& lines, const OnTranslated& callback) : lines_(lines), callback_(callback) {}

  void flush() {
    while (next_ < lines_.size() && !lines_[next_].best.empty()) {
      if (callback_) callback_(lines_[next_]);
      ++next_;
    }
  }

 private:
  std::vector<TranslatedLine>& lines_;
  const OnTranslated& callback_;
  size_t next_ = 0;
};

Translation translation(const Tokenizer& tokenizer, const Hypothesis& hypothesis) {
  return {.text = tokenizer.decode(hypothesis.ids),
          .ids = hypothesis.ids,
          .log_probability = hypothesis.log_probability,
          .score = hypothesis.score,
          .tokens = std::ssize(hypothesis.ids) + 1,
          .is_cut = hypothesis.is_cut};
}

}  // namespace

std::vector<TranslatedLine> translate(const PairModel& model, const Tokenizer& tokenizer,
                                      std::span<const std::string> lines, const SearchOptions& options,
                                      const OnTranslated& on_translated) {
  std::vector<TranslatedLine> result(lines.size());
  std::vector<std::vector<int32_t>> sources;
  for (size_t i = 0; i < lines.size(); ++i) {
    FramedText source = frame_source(tokenizer, lines[i], model.context(), options.rules.prefix);
    if (source.is_blank) source.ids.clear();
    result[i].index = static_cast<int64_t>(i);
    result[i].source_tokens = std::ssize(source.ids);
    result[i].is_source_cut = source.is_cut;
    sources.push_back(std::move(source.ids));
  }
  InOrder in_order(result, on_translated);
  search(model, tokenizer, sources, options, [&](int64_t source, const std::vector<Hypothesis>& best) {
    TranslatedLine& line = result[static_cast<size_t>(source)];
    for (const Hypothesis& hypothesis : best) line.best.push_back(translation(tokenizer, hypothesis));
    if (line.source_tokens == 0) line.best = {Translation{}};
    in_order.flush();
  });
  return result;
}

}  // namespace attend
