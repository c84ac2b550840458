#include <algorithm>
#include <chrono>

#include "attend/base/error.h"
#include "attend/base/threads.h"
#include "attend/ops/precision.h"
#include "generate/drafting.h"
#include "generate/prompt_pace.h"
#include "generate/step_logits.h"

namespace attend {
namespace {

/// Sequences that begin with the same source and prompt, such as several samples, and read it together in one row.
struct Reader {
  std::vector<Slot> slots;
  int64_t row = 0, read = 0;
  int64_t now = 0;       // tokens of the current step
  bool is_done = false;  // the prompt is read

  std::span<const int32_t> prompt() const { return slots[0].prompt(); }
  int64_t left() const { return std::ssize(prompt()) - read; }
};

/// The rows of a decoding are first those of the running sequences, then one for each reader.
class PagedBatch final : public RunningBatch {
 public:
  PagedBatch(const Model& model, const EngineOptions& options, std::shared_ptr<PagePool> pool,
             std::unique_ptr<PagedDecoding> decoding)
      : model_(model),
        options_(options),
        pool_(std::move(pool)),
        decoding_(std::move(decoding)),
        pace_(options.prompt_tokens, options.prompt_seconds),
        drafting_(model, options) {}

  void check(const Slot& slot) const override {
    require<Error>(pages_for(slot) <= pool_->total(), "engine: a sequence needs up to ",
                   pages_for(slot) * pool_->page_bytes(), " bytes for its keys and values, but the limit is ",
                   options_.cache_bytes);
  }

  bool step(std::deque<Slot>& waiting) override {
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    const BatchInvariantScope alone;  // a sequence gets the same bits in any batch
    int64_t tokens = start_waiting(waiting);
    if (running_.empty() && readers_.empty()) return false;
    drafting_.guess(running_, *decoding_, !readers_.empty());
    const std::vector<RowReading> readings = next_readings();
    std::vector<TracedRows> traced = traced_rows(readings);
    read(readings, traced);
    advance(traced);
    drafting_.accept(running_, *decoding_);
    for (const Reader& reader : readers_) tokens += reader.now;
    pace_.add(tokens, std::ssize(running_), std::chrono::duration<double>(Clock::now() - start).count());
    settle(waiting);
    return true;
  }

  EngineCounters counters() const override {
    EngineCounters result{.running = std::ssize(running_),
                          .pages_used = pool_->used(),
                          .pages_total = options_.cache_bytes > 0 ? pool_->total() : 0,
                          .pages_idle = pool_->idle(),
                          .page_bytes = pool_->page_bytes(),
                          .page_tokens = kPagePositions,
                          .prompt_tokens = prompt_tokens_,
                          .reused_tokens = reused_tokens_,
                          .drafted_tokens = drafting_.drafted(),
                          .accepted_tokens = drafting_.accepted()};
    for (const Reader& reader : readers_) result.running += std::ssize(reader.slots);
    return result;
  }

 private:
  int64_t pages_for(const Slot& slot) const {
    const Sequence& sequence = *slot.sequence;
    if (sequence.slides) return PageTable::pages_for(model_.context());
    const int64_t limit = std::min(sequence.limit, model_.context() - std::ssize(sequence.prompt));
    return PagedDecoding::pages_for({sequence.source, sequence.prompt}, slot.width(), std::max<int64_t>(limit, 0));
  }

  /// The number of prompt tokens that a step may read.
  int64_t prompt_budget() const { return running_.empty() ? 4 * pace_.budget() : pace_.budget(); }

  /// Returns the number of source tokens that were encoded.
  int64_t start_waiting(std::deque<Slot>& waiting) {
    int64_t rows = 0, longest = 0, pages = 0, source_tokens = 0;
    const auto count = [&](const Slot& slot) {
      rows += slot.width();
      longest = std::max(longest, slot.length());
      pages += slot.pages;
    };
    for (const Slot& slot : running_) count(slot);
    for (const Reader& reader : readers_) std::ranges::for_each(reader.slots, count);
    std::vector<Reader> fresh;
    while (!waiting.empty() && source_tokens < prompt_budget()) {
      Slot& next = waiting.front();
      next.pages = pages_for(next);
      if (!fits(options_, next, rows, longest) || pages + next.pages > pool_->total()) break;
      next.slide(model_.context());
      drafting_.start(next);
      count(next);
      source_tokens += std::ssize(next.sequence->source);
      const bool is_same = !fresh.empty() && fresh.back().slots[0].sequence->source == next.sequence->source &&
                           fresh.back().slots[0].prompt() == next.prompt();
      if (!is_same) fresh.emplace_back();
      fresh.back().slots.push_back(std::move(next));
      waiting.pop_front();
    }
    pool_->reserve(pages);
    add_readers(std::move(fresh));
    return source_tokens;
  }

  void add_readers(std::vector<Reader> fresh) {
    std::vector<NewRow> rows;
    for (const Reader& reader : fresh) rows.push_back({reader.slots[0].sequence->source, reader.prompt()});
    const int64_t first = decoding_->rows();
    decoding_->add_rows(rows);
    for (size_t i = 0; i < fresh.size(); ++i) {
      fresh[i].row = first + static_cast<int64_t>(i);
      fresh[i].read = decoding_->held(fresh[i].row);
      prompt_tokens_ += std::ssize(fresh[i].prompt());
      reused_tokens_ += fresh[i].read;
      readers_.push_back(std::move(fresh[i]));
    }
  }

  /// One token for each row of a running sequence, with its guesses, then parts of prompts, in order.
  std::vector<RowReading> next_readings() {
    std::vector<RowReading> readings;
    for (const Slot& slot : running_) {
      if (slot.width() == 1) {
        readings.push_back({.row = slot.first_row, .ids = slot.draft, .drafted = slot.guesses()});
        continue;
      }
      const std::span<const int32_t> ids = slot.writer->ids();
      for (size_t r = 0; r < ids.size(); ++r) {
        readings.push_back({.row = slot.first_row + static_cast<int64_t>(r), .ids = ids.subspan(r, 1)});
      }
    }
    int64_t budget = prompt_budget();
    for (Reader& reader : readers_) {
      reader.now = std::min(reader.left(), budget);
      budget -= reader.now;
      if (reader.now == 0) continue;
      const auto ids = reader.prompt().subspan(static_cast<size_t>(reader.read), static_cast<size_t>(reader.now));
      readings.push_back({.row = reader.row, .ids = ids, .needs_logits = reader.now == reader.left()});
    }
    return readings;
  }

  /// The readings of traced sequences, as ranges: those of running sequences, then of prompts that end in this step.
  std::vector<TracedRows> traced_rows(std::span<const RowReading> readings) const {
    std::vector<TracedRows> traced;
    int64_t first = 0;
    for (const Slot& slot : running_) {
      if (slot.sequence->is_traced) traced.push_back({first, slot.width()});
      first += slot.width();
    }
    for (const Reader& reader : readers_) {
      if (reader.now == 0) continue;
      const bool is_traced = std::ranges::any_of(reader.slots, [](const Slot& s) { return s.sequence->is_traced; });
      if (is_traced && readings[static_cast<size_t>(first)].needs_logits) traced.push_back({first, 1});
      ++first;
    }
    return traced;
  }

  void read(std::span<const RowReading> readings, std::vector<TracedRows>& traced) {
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    set_logits(decoding_->step(readings, traced));
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (readers_.empty()) drafting_.add_time(readings, seconds);
  }

  void set_logits(const Tensor& logits) {
    if (!logits) return;
    std::vector<const Slot*> slots;
    for (const Slot& slot : running_) slots.push_back(&slot);
    for (const Reader& reader : readers_) {
      if (reader.now < reader.left()) continue;
      for (const Slot& slot : reader.slots) slots.push_back(&slot);
    }
    logits_.set(logits, slots, options_.use_best);
  }

  /// A sequence that gets its next token in this step, and its part of the step's results.
  struct Turn {
    Slot* slot;
    StepRows rows;
    int64_t first = 0;   // index of its first row of logits
    int64_t trace = -1;  // index among the traced rows
    int64_t trace_rows = 1, newest = 0;
  };

  /// `repeated` keeps the logits of beams alive.
  std::vector<Turn> turns_of_step(std::deque<StepLogits>& repeated) {
    std::vector<Turn> turns;
    int64_t first = 0, trace = 0;
    for (Slot& slot : running_) {
      Turn turn{.slot = &slot, .rows = logits_.rows(first, slot.width()), .first = first, .trace_rows = slot.width()};
      if (slot.sequence->is_traced) turn.trace = trace++;
      turns.push_back(turn);
      first += slot.width() + slot.guesses();
    }
    for (Reader& reader : readers_) {
      reader.read += reader.now;
      reader.is_done = reader.left() == 0;
      if (!reader.is_done) continue;
      bool is_traced = false;
      for (Slot& slot : reader.slots) {
        Turn turn{.slot = &slot, .newest = reader.now - 1};
        if (slot.width() == 1) {
          turn.rows = logits_.rows(first, 1);
        } else {
          repeated.push_back(logits_.repeated(first, slot.width()));
          turn.rows = repeated.back().rows(0, slot.width());
        }
        if (slot.sequence->is_traced) turn.trace = trace, is_traced = true;
        turns.push_back(turn);
      }
      trace += is_traced ? 1 : 0;
      ++first;
    }
    return turns;
  }

  /// Writes the next token of each sequence, then those that follow right guesses.
  void advance(const std::vector<TracedRows>& traced) {
    std::deque<StepLogits> repeated;  // the hypotheses of a beam begin with the same logits
    std::vector<Turn> turns = turns_of_step(repeated);
    while (!turns.empty()) {
      write(turns);
      for (const Turn& turn : turns) report(turn, traced);
      std::erase_if(turns, [&](Turn& turn) { return !follows_guess(turn); });
    }
  }

  /// Whether the token that was just written is the next guess. Then the turn gets the logits after it.
  bool follows_guess(Turn& turn) const {
    Slot& slot = *turn.slot;
    if (slot.is_over || slot.accepted == slot.guesses()) return false;
    if (slot.writer->ids()[0] != slot.draft[static_cast<size_t>(slot.accepted) + 1]) return false;
    ++slot.accepted;
    turn.rows = logits_.rows(turn.first + slot.accepted, 1);
    return true;
  }

  void write(const std::vector<Turn>& turns) const {
    const auto write_one = [&](int64_t i) {
      const Turn& turn = turns[static_cast<size_t>(i)];
      turn.slot->advance(turn.rows);
    };
    // The best logits alone take less time than waking a thread.
    if (logits_.is_short()) {
      for (int64_t i = 0; i < std::ssize(turns); ++i) write_one(i);
    } else {
      parallel_for(std::ssize(turns), write_one);
    }
  }

  static void report(const Turn& turn, const std::vector<TracedRows>& traced) {
    const auto* rows = turn.trace < 0 ? nullptr : &traced[static_cast<size_t>(turn.trace)];
    turn.slot->report({.nodes = turn.slot->writer->nodes(),
                       .rows = turn.rows,
                       .traces = rows ? &rows->traces : nullptr,
                       .trace_rows = turn.trace_rows,
                       .batch_rows = turn.trace_rows,
                       .newest = turn.newest});
  }

  /// Drops what is over, turns readers at the end of their prompt into running sequences, and reorders the rows, so
  /// that each continues its parent hypothesis.
  void settle(std::deque<Slot>& waiting) {
    std::vector<int64_t> order;
    std::vector<Slot> running, again;
    std::vector<Reader> readers;
    const auto keep = [&](Slot& slot, auto&& row_of) {
      if (slot.is_over) return;
      if (slot.sequence->slides && std::ssize(slot.window) > model_.context()) {
        again.push_back(slot.again());  // positions change: the last half of the context is read again
        return;
      }
      slot.first_row = std::ssize(order);
      for (const int64_t parent : slot.writer->parents()) order.push_back(row_of(parent));
      running.push_back(std::move(slot));
    };
    for (Slot& slot : running_) {
      keep(slot, [first = slot.first_row](int64_t parent) { return first + parent; });
    }
    for (Reader& reader : readers_) {
      if (!reader.is_done) {
        std::erase_if(reader.slots, [](const Slot& slot) { return !slot.is_wanted(); });
        if (!reader.slots.empty()) readers.push_back(std::move(reader));
        continue;
      }
      for (Slot& slot : reader.slots) keep(slot, [row = reader.row](int64_t) { return row; });
    }
    for (Reader& reader : readers) {
      order.push_back(reader.row);
      reader.row = std::ssize(order) - 1;
    }
    running_ = std::move(running);
    readers_ = std::move(readers);
    for (auto slot = again.rbegin(); slot != again.rend(); ++slot) waiting.push_front(std::move(*slot));
    decoding_->select(order);
  }

  const Model& model_;
  const EngineOptions options_;
  std::shared_ptr<PagePool> pool_;
  std::unique_ptr<PagedDecoding> decoding_;
  std::vector<Slot> running_;
  std::vector<Reader> readers_;
  StepLogits logits_;  // of the last step
  int64_t prompt_tokens_ = 0, reused_tokens_ = 0;
  PromptPace pace_;
  Drafting drafting_;
};

}  // namespace

std::unique_ptr<RunningBatch> create_paged_batch(const Model& model, const EngineOptions& options) {
  auto pool = std::make_shared<PagePool>(options.cache_bytes);
  std::unique_ptr<PagedDecoding> decoding = start_paged(model, pool, options.cache_type);
  require<Error>(decoding || !options.cache_type || model.device() != kCpu,
                 "engine: this model has no cache of keys and values whose type could be chosen");
  if (!decoding) return nullptr;
  if (options.warm_bytes > 0) {
    const int64_t most = options.rows * PageTable::pages_for(model.context());
    pool->warm(std::min(options.warm_bytes / pool->page_bytes(), most));
  }
  return std::make_unique<PagedBatch>(model, options, std::move(pool), std::move(decoding));
}

}  // namespace attend
