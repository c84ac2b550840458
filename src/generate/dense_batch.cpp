#include <algorithm>

#include "attend/base/error.h"
#include "attend/base/threads.h"
#include "attend/nn/cache.h"
#include "attend/ops/precision.h"
#include "attend/tensor/creation.h"
#include "generate/batch.h"
#include "generate/id_rows.h"
#include "generate/reread.h"
#include "generate/step_logits.h"

namespace attend {
namespace {

/// Finished sequences are dropped once they are an eighth of the batch: dropping moves the memory of all rows.
constexpr int64_t kDropShare = 8;

/// Sequences with the same number of rows, and their decoder. Slot s owns the rows s · width … (s + 1) · width − 1.
struct Group {
  int64_t width = 1;
  std::unique_ptr<Decoding> decoding;
  std::vector<Slot> slots;
  AttentionRecorder recorder;
  bool use_best = true;        // EngineOptions
  StepLogits logits;           // of the last step
  std::vector<int64_t> trace;  // row of each slot in the batch of the last step
  int64_t trace_width = 1, trace_batch = 1;
  bool is_first = true;  // the last step read the prompts

  ForwardPass pass() {
    recorder.traces.clear();
    const bool is_traced = std::ranges::any_of(slots, [](const Slot& slot) { return slot.sequence->is_traced; });
    return {.observer = is_traced ? &recorder : nullptr};
  }

  void decode() {
    std::vector<int64_t> ids;
    trace.clear();
    for (Slot& slot : slots) {
      ++slot.held;
      trace.push_back(std::ssize(ids));
      ids.insert(ids.end(), slot.writer->ids().begin(), slot.writer->ids().end());
    }
    is_first = false;
    trace_width = width;
    trace_batch = std::ssize(ids);
    set_logits(decoding->step(tensor<int64_t>(ids, {trace_batch, 1}), {}, pass()));
  }

  void set_logits(const Tensor& values) {
    std::vector<const Slot*> wanted;
    for (const Slot& slot : slots) {
      if (!slot.is_over) wanted.push_back(&slot);
    }
    logits.set(values, wanted, use_best);
  }

  StepRows rows_of_slot(size_t s) const { return logits.rows(static_cast<int64_t>(s) * width, width); }

  void advance() {
    const auto write = [&](int64_t s) {
      Slot& slot = slots[static_cast<size_t>(s)];
      if (!slot.is_over) slot.advance(rows_of_slot(static_cast<size_t>(s)));
    };
    // The best logits alone take less time than waking a thread.
    if (logits.is_short()) {
      for (int64_t s = 0; s < std::ssize(slots); ++s) write(s);
    } else {
      parallel_for(std::ssize(slots), write);
    }
    for (size_t s = 0; s < slots.size(); ++s) {
      if (!slots[s].is_over) report(slots[s], s, rows_of_slot(s));
    }
  }

  void report(Slot& slot, size_t s, const StepRows& rows) const {
    slot.report({.nodes = slot.writer->nodes(),
                 .rows = rows,
                 .traces = slot.sequence->is_traced ? &recorder.traces : nullptr,
                 .trace_row = trace[s],
                 .trace_rows = trace_width,
                 .batch_rows = trace_batch,
                 .newest = is_first ? std::ssize(slot.prompt()) - 1 : 0});
  }
};

class DenseBatch final : public RunningBatch {
 public:
  DenseBatch(const Model& model, const EngineOptions& options) : model_(model), options_(options) {}
  bool step(std::deque<Slot>& waiting) override;
  EngineCounters counters() const override {
    EngineCounters result;
    for (const auto& group : groups_) result.running += std::ssize(group->slots);
    return result;
  }

 private:
  std::vector<std::unique_ptr<Group>> start_waiting(std::deque<Slot>& waiting);
  std::unique_ptr<Group> read(std::vector<Slot> slots) const;
  Tensor first_logits(Group& group, std::span<const Slot* const> distinct) const;
  void settle(Group& group, std::deque<Slot>& waiting);
  void merge(std::vector<std::unique_ptr<Group>> fresh);

  const Model& model_;
  const EngineOptions options_;
  std::vector<std::unique_ptr<Group>> groups_;  // one for each number of rows per sequence
};

bool DenseBatch::step(std::deque<Slot>& waiting) {
  const BatchInvariantScope alone;  // a sequence gets the same bits in any batch
  for (const auto& group : groups_) group->decode();
  std::vector<std::unique_ptr<Group>> fresh = start_waiting(waiting);
  if (groups_.empty() && fresh.empty()) return false;
  for (const auto* all : {&groups_, &fresh}) {
    for (const auto& group : *all) group->advance();
  }
  merge(std::move(fresh));
  for (const auto& group : groups_) settle(*group, waiting);
  std::erase_if(groups_, [](const auto& group) { return group->slots.empty(); });
  return true;
}

/// Reads the prompts of as many waiting sequences as fit into the batch.
std::vector<std::unique_ptr<Group>> DenseBatch::start_waiting(std::deque<Slot>& waiting) {
  int64_t rows = 0, longest = 0;
  for (const auto& group : groups_) {
    rows += std::ssize(group->slots) * group->width;
    for (const Slot& slot : group->slots) longest = std::max(longest, slot.length());
  }
  std::vector<std::vector<Slot>> started;  // grouped by width
  while (!waiting.empty() && fits(options_, waiting.front(), rows, longest)) {
    Slot slot = std::move(waiting.front());
    waiting.pop_front();
    slot.slide(model_.context());
    rows += slot.width();
    longest = std::max(longest, slot.length());
    const auto same =
        std::ranges::find_if(started, [&](const std::vector<Slot>& slots) { return slots[0].width() == slot.width(); });
    if (same != started.end()) {
      same->push_back(std::move(slot));
    } else {
      started.emplace_back();
      started.back().push_back(std::move(slot));
    }
  }
  std::vector<std::unique_ptr<Group>> result;
  for (std::vector<Slot>& slots : started) result.push_back(read(std::move(slots)));
  return result;
}

/// Reads the sources and prompts of sequences of one width. Equal ones, such as several samples of one prompt, are read
/// once.
std::unique_ptr<Group> DenseBatch::read(std::vector<Slot> slots) const {
  auto group = std::make_unique<Group>();
  group->width = slots[0].width();
  group->use_best = options_.use_best;
  group->slots = std::move(slots);
  std::vector<const Slot*> distinct;
  std::vector<int64_t> order;
  for (Slot& slot : group->slots) {
    slot.held = std::ssize(slot.prompt());
    const bool is_new = distinct.empty() || distinct.back()->sequence->source != slot.sequence->source ||
                        distinct.back()->prompt() != slot.prompt();
    if (is_new) distinct.push_back(&slot);
    order.push_back(std::ssize(distinct) - 1);
  }
  Tensor logits = first_logits(*group, distinct);
  group->trace = order;
  group->trace_batch = std::ssize(distinct);
  if (distinct.size() < order.size()) {
    group->decoding->select(order);
    logits = select_rows(logits, order);
  }
  if (group->width > 1) {
    group->decoding->spread(group->width);
    logits = select_rows(logits, repeated_rows(std::ssize(order), group->width));
  }
  group->set_logits(logits);
  return group;
}

Tensor DenseBatch::first_logits(Group& group, std::span<const Slot* const> distinct) const {
  std::vector<std::vector<int32_t>> sources, prompts;
  for (const Slot* slot : distinct) {
    sources.push_back(slot->sequence->source);
    prompts.push_back(slot->prompt());
  }
  const IdRows prompt = pad_rows(prompts);
  if (const auto* pair = dynamic_cast<const PairModel*>(&model_)) {
    const IdRows source = pad_rows(sources);
    group.decoding = options_.use_cache ? pair->start(source.ids, source.lengths)
                                        : start_rereading(*pair, source.ids, source.lengths);
  } else {
    const auto& language = dynamic_cast<const LanguageModel&>(model_);
    group.decoding = options_.use_cache ? language.start() : start_rereading(language);
  }
  if (options_.cache_type) group.decoding->set_cache_type(*options_.cache_type);
  return group.decoding->step(prompt.ids, prompt.lengths, group.pass());
}

void DenseBatch::merge(std::vector<std::unique_ptr<Group>> fresh) {
  for (std::unique_ptr<Group>& group : fresh) {
    const auto same = std::ranges::find(groups_, group->width, [](const auto& one) { return one->width; });
    if (same == groups_.end()) {
      groups_.push_back(std::move(group));
      continue;
    }
    (*same)->decoding->join(*group->decoding);
    std::ranges::move(group->slots, std::back_inserter((*same)->slots));
  }
}

/// Reorders the rows, so that each continues its parent hypothesis, and drops finished sequences. Copying between rows
/// of one sequence is cheap. Dropping moves all rows, which pays only once enough sequences are finished.
void DenseBatch::settle(Group& group, std::deque<Slot>& waiting) {
  const int64_t context = model_.context();
  int64_t over = 0;
  bool must_leave = false;
  for (Slot& slot : group.slots) {
    if (!slot.is_over && slot.sequence->slides && std::ssize(slot.window) > context) {
      must_leave = true;  // positions change: the last half of the context is read again
      waiting.push_front(slot.again());
      slot.is_over = true;
    }
    must_leave |= slot.is_over && slot.held >= context;  // its rows have no room for another token
    over += slot.is_over ? 1 : 0;
  }
  const bool is_dropping = must_leave || (over > 0 && over * kDropShare >= std::ssize(group.slots));
  bool is_moved = is_dropping;
  std::vector<int64_t> order;
  for (size_t s = 0; s < group.slots.size(); ++s) {
    const Slot& slot = group.slots[s];
    if (slot.is_over && is_dropping) continue;
    for (int64_t r = 0; r < group.width; ++r) {
      const int64_t parent = slot.is_over ? r : slot.writer->parents()[static_cast<size_t>(r)];
      is_moved |= parent != r;
      order.push_back(static_cast<int64_t>(s) * group.width + parent);
    }
  }
  if (is_dropping) std::erase_if(group.slots, [](const Slot& slot) { return slot.is_over; });
  if (is_moved && !group.slots.empty()) group.decoding->select(order);
}

}  // namespace

std::unique_ptr<RunningBatch> create_dense_batch(const Model& model, const EngineOptions& options) {
  return std::make_unique<DenseBatch>(model, options);
}

}  // namespace attend
