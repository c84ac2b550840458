#include "attend/generate/search.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "attend/autograd/autograd.h"
#include "attend/base/error.h"
#include "attend/base/threads.h"
#include "attend/nn/cache.h"
#include "attend/ops/softmax.h"
#include "attend/tensor/creation.h"
#include "generate/id_rows.h"
#include "generate/reread.h"
#include "generate/writer.h"

namespace attend {

std::span<const float> StepRows::logits_of(int64_t row, int64_t vocab_size) const {
  return logits.subspan(static_cast<size_t>(row) * stride, static_cast<size_t>(vocab_size));
}

void StepRows::log_probabilities_of(int64_t row, int64_t vocab_size, std::vector<float>& result) const {
  const LogTerms own = LogTerms::of(terms, row);
  result.clear();
  for (const float logit : logits_of(row, vocab_size)) result.push_back(own.log_probability(logit));
}

double StepRows::log_probability(int64_t row, int32_t id) const {
  return LogTerms::of(terms, row).log_probability(logits[static_cast<size_t>(row) * stride + static_cast<size_t>(id)]);
}

ScoreRules WriterConfig::rules() const {
  return {options.rules,
          vocabulary,
          {.before = before, .source = source, .last = options.ends_at_limit ? limit : limit - 1}};
}

namespace {

constexpr int64_t kMostRows = 512;  // of a batch: products gain nothing from more
constexpr int64_t kDropShare = 8;   // sources leave the batch once an eighth of them is done

int64_t rows_of(const SearchOptions& options) { return options.sampling ? options.n_best : options.beam; }

/// The decoder with the writers that share it: slot s owns rows s · rows … (s + 1) · rows − 1.
class BatchSearch {
 public:
  /// Reads the prompts once for all that is written behind each of them.
  BatchSearch(const SearchOptions& options, const Vocabulary& vocabulary, std::unique_ptr<Decoding> decoding,
              const Tensor& prompts, const Tensor& lengths = {})
      : options_(options), vocabulary_(vocabulary), decoding_(std::move(decoding)), rows_(rows_of(options)) {
    first_ = decoding_->step(prompts, lengths);
    if (rows_ == 1) return;
    decoding_->spread(rows_);
    first_ = select_rows(first_, repeated_rows(prompts.dim(0), rows_));
  }

  void add(int64_t index, const WriterConfig& config) {
    slots_.push_back({index, options_.sampling ? create_sampler(config) : create_beam(config)});
  }

  /// Runs until all sources are done.
  void run(const OnHypotheses& on_hypotheses) {
    while (!slots_.empty()) {
      if (options_.on_step) options_.on_step();
      step();
      int64_t done = 0;
      for (Slot& slot : slots_) {
        if (!slot.is_reported && slot.writer->is_done()) {
          on_hypotheses(slot.index, slot.writer->take());
          slot.is_reported = true;
        }
        done += slot.is_reported ? 1 : 0;
      }
      move_rows(done);
    }
  }

 private:
  struct Slot {
    int64_t index = 0;
    std::unique_ptr<Writer> writer;
    bool is_reported = false;
  };

  void step() {
    const NoGrad scope;
    const Tensor logits = to(next_logits(), DType::f32);
    const Tensor terms = log_softmax_terms(logits);
    std::vector<std::vector<Continuation>> best;
    if (!options_.sampling && !ScoreRules::are_needed(options_.rules)) {
      const auto count = static_cast<int64_t>(candidate_count(rows_, vocabulary_));
      best = top_continuations(logits, count, vocabulary_);
    }
    const auto stride = static_cast<size_t>(logits.dim(1)), rows = static_cast<size_t>(rows_);
    parallel_for(std::ssize(slots_), [&](int64_t s) {
      Slot& slot = slots_[static_cast<size_t>(s)];
      if (slot.is_reported) return;
      const size_t first = static_cast<size_t>(s) * rows;
      StepRows view{.logits = logits.data<const float>().subspan(first * stride, rows * stride),
                    .terms = terms.data<const float>().subspan(2 * first, 2 * rows),
                    .stride = stride};
      if (!best.empty()) view.best = std::span(best).subspan(first, rows);
      slot.writer->advance(view);
    });
  }

  Tensor next_logits() {
    if (first_) return std::exchange(first_, {});
    std::vector<int64_t> ids;
    for (const Slot& slot : slots_) ids.insert(ids.end(), slot.writer->ids().begin(), slot.writer->ids().end());
    return decoding_->step(tensor<int64_t>(ids, {std::ssize(ids), 1}));
  }

  /// Gives each row what it goes on from. Rows that only take copies of their neighbours are cheap to move; to leave
  /// out sources moves all rows and the memory, which pays once enough of them are done.
  void move_rows(int64_t done) {
    const bool is_dropping = done > 0 && done * kDropShare >= std::ssize(slots_);
    bool is_moved = is_dropping;
    std::vector<int64_t> order;
    for (size_t s = 0; s < slots_.size(); ++s) {
      if (slots_[s].is_reported && is_dropping) continue;
      for (int64_t r = 0; r < rows_; ++r) {
        const int64_t parent = slots_[s].is_reported ? r : slots_[s].writer->parents()[static_cast<size_t>(r)];
        is_moved |= parent != r;
        order.push_back(static_cast<int64_t>(s) * rows_ + parent);
      }
    }
    if (is_dropping) std::erase_if(slots_, [](const Slot& slot) { return slot.is_reported; });
    if (is_moved && !slots_.empty()) decoding_->select(order);
  }

  const SearchOptions& options_;
  const Vocabulary& vocabulary_;
  std::unique_ptr<Decoding> decoding_;
  int64_t rows_;
  Tensor first_;  // logits behind the prompts
  std::vector<Slot> slots_;
};

SearchStop stop_of(EarlyStopping stopping) {
  switch (stopping) {
    case EarlyStopping::likely:
      return SearchStop::likely;
    case EarlyStopping::eager:
      return SearchStop::eager;
    case EarlyStopping::never:
      return SearchStop::best;  // which finds the same, and knows it sooner
  }
  return SearchStop::likely;
}

int64_t length_limit(const SearchOptions& options, int64_t source_length, int64_t context) {
  const int64_t wanted = options.max_length > 0 ? options.max_length : 3 * source_length + 10;
  return std::min(wanted, options.ends_at_limit ? context - 1 : context);  // begin is read, too
}

}  // namespace

SearchOptions with_rules(SearchOptions options, const GenerationRules& rules) {
  options.rules = rules;
  if (options.max_length == 0) {
    options.max_length = rules.max_new > 0 ? rules.max_new : std::max<int64_t>(rules.max_length - 1, 0);  // the start
  }
  if (!rules.as_transformers) return options;
  if (options.stop == SearchStop::best) options.stop = stop_of(rules.early_stopping);
  options.ends_at_limit = false;
  return options;
}

SearchOptions search_by(const GenerationRules& rules) {
  return with_rules({.beam = std::max<int64_t>(rules.beam, 1), .length_penalty = rules.length_penalty}, rules);
}

void check_search(const SearchOptions& options) {
  const auto from_one = [](const char* name, int64_t value) {
    require<ShapeError>(value >= 1, "search: ", name, " must be at least 1, got ", value);
  };
  from_one("beam", options.beam);
  from_one("n_best", options.n_best);
  from_one("batch_tokens", options.batch_tokens);
  require<ShapeError>(options.max_length >= 0, "search: max_length must be at least 0, got ", options.max_length);
  require<ShapeError>(options.length_penalty >= -10 && options.length_penalty <= 10,
                      "search: length_penalty must be from -10 to 10, got ", options.length_penalty);
  require<ShapeError>(options.sampling || options.n_best <= options.beam, "search: the ", options.n_best,
                      " best were asked for, but the beam keeps ", options.beam);
  if (options.sampling) check_sampling(*options.sampling);
}

void search(const PairModel& model, const Tokenizer& tokenizer, std::span<const std::vector<int32_t>> sources,
            const SearchOptions& options, const OnHypotheses& on_hypotheses) {
  check_search(options);
  const Vocabulary vocabulary = Vocabulary::of(tokenizer, model.vocab_size(), options.rules);
  require<FormatError>(vocabulary.end() >= 0, "search: the tokenizer has no token that ends a sentence");
  std::vector<int64_t> lengths;
  for (const auto& source : sources) {
    lengths.push_back(std::ssize(source));
    require<ShapeError>(lengths.back() <= model.context(), "search: a source has ", lengths.back(),
                        " tokens, the model's context is ", model.context());
  }
  const int64_t rows = rows_of(options);
  const GroupOptions groups{.tokens = std::max<int64_t>(options.batch_tokens / rows, 1),
                            .most = std::max<int64_t>(kMostRows / rows, 1)};
  for (const Batch& batch : group_by_length(lengths, groups)) {
    if (lengths[static_cast<size_t>(batch[0])] == 0) {  // the longest of them
      for (const int64_t index : batch) on_hypotheses(index, {Hypothesis{}});
      continue;
    }
    const IdRows read = pad_rows(sources, batch);
    const std::array start{vocabulary.begin};
    BatchSearch work(
        options, vocabulary,
        options.use_cache ? model.start(read.ids, read.lengths) : start_rereading(model, read.ids, read.lengths),
        full({std::ssize(batch), 1}, vocabulary.begin, {DType::i64}));
    for (const int64_t index : batch) {
      work.add(index, {.options = options,
                       .vocabulary = vocabulary,
                       .limit = length_limit(options, lengths[static_cast<size_t>(index)], model.context()),
                       .index = static_cast<uint64_t>(options.first_index + index),
                       .before = start,
                       .source = sources[static_cast<size_t>(index)]});
    }
    work.run(on_hypotheses);
  }
}

void search(const LanguageModel& model, const Vocabulary& vocabulary, std::span<const std::vector<int32_t>> prompts,
            const SearchOptions& options, const OnHypotheses& on_hypotheses) {
  check_search(options);
  require<ShapeError>(!options.sampling, "search: a language model samples in generate_text");
  require<ShapeError>(!options.ends_at_limit || vocabulary.end() >= 0, "search: there is no token that ends a text");
  std::vector<int64_t> lengths;
  for (const auto& prompt : prompts) {
    lengths.push_back(std::ssize(prompt));
    require<ShapeError>(lengths.back() >= 1 && lengths.back() < model.context(), "search: a prompt has ",
                        lengths.back(), " tokens, the model's context is ", model.context());
  }
  const GroupOptions groups{.tokens = std::max<int64_t>(options.batch_tokens / options.beam, 1),
                            .most = std::max<int64_t>(kMostRows / options.beam, 1)};
  for (const Batch& batch : group_by_length(lengths, groups)) {
    const IdRows read = pad_rows(prompts, batch);
    BatchSearch work(options, vocabulary, options.use_cache ? model.start() : start_rereading(model), read.ids,
                     read.lengths);
    for (const int64_t index : batch) {
      const int64_t room = model.context() - lengths[static_cast<size_t>(index)];
      work.add(index, {.options = options,
                       .vocabulary = vocabulary,
                       .limit = options.max_length > 0 ? std::min(options.max_length, room) : room,
                       .index = static_cast<uint64_t>(options.first_index + index),
                       .before = prompts[static_cast<size_t>(index)],
                       .source = prompts[static_cast<size_t>(index)]});
    }
    work.run(on_hypotheses);
  }
}

}  // namespace attend
