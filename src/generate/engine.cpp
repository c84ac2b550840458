#include "generate/engine.h"

#include <algorithm>
#include <optional>

#include "attend/autograd/autograd.h"
#include "attend/base/error.h"
#include "attend/base/threads.h"
#include "attend/nn/cache.h"
#include "attend/ops/shape.h"
#include "attend/ops/softmax.h"
#include "attend/tensor/creation.h"
#include "generate/id_rows.h"
#include "generate/reread.h"
#include "ops/generation.h"

namespace attend {
namespace {

/// Finished sequences are dropped once they are an eighth of the batch: dropping moves the memory of all rows.
constexpr int64_t kDropShare = 8;

/// The number of keys up to the last that a query may see; the rest is padding of longer rows.
int64_t visible_keys(const AttentionTrace& trace, int64_t entry, int64_t query) {
  const AttentionOptions& options = trace.options;
  int64_t keys = options.lengths ? options.lengths.to_vector<int64_t>()[static_cast<size_t>(entry)] : trace.k.dim(2);
  if (options.mask && options.mask.rank() == 4 && options.mask.dim(1) == 1 && options.mask.dim(2) == 1) {
    const Tensor own = contiguous(to(select(options.mask, 0, std::min(entry, options.mask.dim(0) - 1)), kCpu));
    const auto seen = own.data<const bool>();
    while (keys > 0 && !seen[static_cast<size_t>(keys - 1)]) --keys;
  }
  if (!options.causal) return keys;
  return std::min(keys, query + 1 + (options.alignment == Alignment::bottom_right ? keys - trace.q.dim(2) : 0));
}

int64_t rows_of(const Sequence& sequence) { return sequence.options.sampling ? 1 : sequence.options.beam; }

}  // namespace

ScoreRules WriterConfig::rules() const {
  return {options.rules,
          vocabulary,
          {.before = before, .source = source, .last = options.ends_at_limit ? limit : limit - 1}};
}

SequenceStep::TracePlace SequenceStep::place_of(const AttentionTrace& trace, int64_t from) const {
  const int64_t own = trace_rows == 1 ? 0 : from;  // before the first token, all hypotheses share one row
  // If each row has its own keys, it is a batch entry. If the hypotheses of a source share keys, they are its queries.
  const bool is_row = trace.q.dim(0) == batch_rows;
  return {.entry = is_row ? trace_row + own : trace_row / trace_rows, .query = is_row ? newest : own};
}

std::vector<float> SequenceStep::attention_of(const AttentionTrace& trace, int64_t from) const {
  const auto [entry, query] = place_of(trace, from);
  const Tensor all = to(trace.weights({.heads = {}, .rows = {query}}).values, kCpu);  // [batch, heads, 1, keys]
  const std::vector<float> weights = select(all, 0, entry).to_vector<float>();
  const int64_t heads = all.dim(1), padded = all.dim(3);
  std::vector<float> result(static_cast<size_t>(visible_keys(trace, entry, query)));
  for (size_t key = 0; key < result.size(); ++key) {
    float sum = 0;  // in order of the heads, whatever the length of other rows
    for (int64_t head = 0; head < heads; ++head) sum += weights[static_cast<size_t>(head * padded) + key];
    result[key] = sum / static_cast<float>(heads);
  }
  return result;
}

AttentionWeights SequenceStep::weights_of(const AttentionTrace& trace, int64_t from, const std::vector<int64_t>& heads,
                                          int64_t top) const {
  const auto [entry, query] = place_of(trace, from);
  const int64_t count = std::min(top, visible_keys(trace, entry, query));
  const AttentionWeights all =
      trace.weights({.heads = heads, .rows = {query}, .top = count});  // [batch, heads, 1, top]
  return {.values = select(select(all.values, 0, entry), 1, 0), .places = select(select(all.places, 0, entry), 1, 0)};
}

/// A sequence and its state.
struct Engine::Slot {
  std::unique_ptr<Sequence> sequence;  // the writer refers to it
  std::unique_ptr<Writer> writer;
  std::vector<int32_t> window;  // of a sliding sequence: the tokens that the decoder has read or reads next
  std::optional<Error> error;   // of the last step
  bool is_over = false;         // finished, cancelled by its callback, or waiting to be read again
  int64_t held = 0;             // number of tokens that its rows have read

  const std::vector<int32_t>& prompt() const { return sequence->slides ? window : sequence->prompt; }
  int64_t length() const { return std::max(std::ssize(sequence->source), std::ssize(prompt())); }
};

/// Sequences with the same number of rows, and their decoder. Slot s owns the rows s · width … (s + 1) · width − 1.
struct Engine::Group {
  int64_t width = 1;
  std::unique_ptr<Decoding> decoding;
  std::vector<Slot> slots;
  AttentionRecorder recorder;
  bool use_best = true;        // EngineOptions
  Tensor logits, terms;        // of the last step, f32; terms is [rows, 2 or more]
  int64_t best_count = 0;      // StepRows
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

  /// The number of best tokens that all writers need; 0 if one needs all logits.
  int64_t best_needed() const {
    int64_t most = 0;
    for (const Slot& slot : slots) {
      if (slot.is_over) continue;
      const int64_t own = slot.writer->best_needed();
      const bool has_words = slot.sequence->vocabulary.size == slots[0].sequence->vocabulary.size;
      if (own == 0 || slot.sequence->is_traced || !has_words) return 0;
      most = std::max(most, own);
    }
    return most;
  }

  /// Sets the logits of a step and the terms of their log-softmax, both on the host. A GPU sends only the best logits
  /// if they suffice.
  void set_logits(const Tensor& values) {
    const Tensor narrow = to(values, DType::f32);
    best_count = use_best && values.device() != kCpu ? best_needed() : 0;
    if (best_count > 0) {
      terms = to(best_logits(narrow, slots[0].sequence->vocabulary.size, best_count), kCpu);
      logits = {};
      return;
    }
    terms = to(log_softmax_terms(narrow), kCpu);
    logits = to(narrow, kCpu);
  }

  StepRows rows_of_slot(size_t s) const {
    const auto rows = static_cast<size_t>(width), terms_stride = static_cast<size_t>(terms.dim(1));
    StepRows result{.terms = terms.data<const float>().subspan(s * rows * terms_stride, rows * terms_stride),
                    .term_stride = terms_stride,
                    .best_count = best_count};
    if (best_count > 0) return result;
    result.stride = static_cast<size_t>(logits.dim(1));
    result.logits = logits.data<const float>().subspan(s * rows * result.stride, rows * result.stride);
    return result;
  }

  void advance() {
    const auto write = [&](int64_t s) {
      Slot& slot = slots[static_cast<size_t>(s)];
      if (!slot.is_over) advance(slot, rows_of_slot(static_cast<size_t>(s)));
    };
    // The best logits alone take less time than waking a thread.
    if (best_count > 0) {
      for (int64_t s = 0; s < std::ssize(slots); ++s) write(s);
    } else {
      parallel_for(std::ssize(slots), write);
    }
    for (size_t s = 0; s < slots.size(); ++s) {
      if (!slots[s].is_over) report(slots[s], s, rows_of_slot(s));
    }
  }

  static void advance(Slot& slot, const StepRows& rows) {
    try {
      slot.writer->advance(rows);
    } catch (const Error& error) {
      if (!slot.sequence->on_error) throw;
      slot.error = error;
    }
  }

  void report(Slot& slot, size_t s, const StepRows& rows) {
    const Sequence& sequence = *slot.sequence;
    if (slot.error) {
      slot.is_over = true;
      return sequence.on_error(*slot.error);
    }
    const SequenceStep step{.nodes = slot.writer->nodes(),
                            .rows = rows,
                            .traces = sequence.is_traced ? &recorder.traces : nullptr,
                            .trace_row = trace[s],
                            .trace_rows = trace_width,
                            .batch_rows = trace_batch,
                            .newest = is_first ? std::ssize(slot.prompt()) - 1 : 0};
    const bool goes_on = !sequence.on_step || sequence.on_step(step);
    slot.is_over = !goes_on || slot.writer->is_done();
    if (goes_on && slot.is_over && sequence.on_done) sequence.on_done(slot.writer->take());
    if (sequence.slides && !slot.is_over) slot.window.push_back(slot.writer->ids()[0]);
  }
};

Engine::Engine(const Model& model, const EngineOptions& options) : model_(model), options_(options) {
  const bool writes = model.kind() == ModelKind::translation || model.kind() == ModelKind::language;
  require<ShapeError>(writes, "engine: architecture ", model.architecture(), " does not generate text");
}

Engine::~Engine() = default;

void Engine::add(Sequence sequence) {
  const int64_t context = model_.context();
  require<ShapeError>(std::ssize(sequence.source) <= context, "search: a source has ", sequence.source.size(),
                      " tokens, but the model's context is ", context);
  require<ShapeError>(!sequence.prompt.empty() && (sequence.slides || std::ssize(sequence.prompt) <= context),
                      "search: a prompt has ", sequence.prompt.size(), " tokens, but the model's context is ", context);
  require<ShapeError>(!sequence.slides || rows_of(sequence) == 1, "engine: a sliding sequence must have one row, got ",
                      rows_of(sequence));
  Slot slot{.sequence = std::make_unique<Sequence>(std::move(sequence))};
  const Sequence& own = *slot.sequence;
  const WriterConfig config{.options = own.options,
                            .vocabulary = own.vocabulary,
                            .limit = own.limit,
                            .index = own.index,
                            .copy = own.copy,
                            .before = own.prompt,
                            .source = own.source.empty() ? own.prompt : own.source,
                            .counts_prompt = own.source.empty()};
  slot.writer = own.options.sampling ? create_sampler(config) : create_beam(config);
  if (own.slides) slot.window = own.prompt;
  waiting_.push_back(std::move(slot));
}

bool Engine::step() {
  const NoGrad scope;
  for (const auto& group : groups_) group->decode();
  std::vector<std::unique_ptr<Group>> fresh = start_waiting();
  if (groups_.empty() && fresh.empty()) return false;
  for (const auto* all : {&groups_, &fresh}) {
    for (const auto& group : *all) group->advance();
  }
  merge(std::move(fresh));
  for (const auto& group : groups_) settle(*group);
  std::erase_if(groups_, [](const auto& group) { return group->slots.empty(); });
  return true;
}

bool Engine::fits(const Slot& slot, int64_t rows, int64_t longest) const {
  if (rows == 0) return true;
  const int64_t all = rows + rows_of(*slot.sequence), length = std::max(longest, slot.length());
  return all <= options_.rows && all <= options_.tokens / length;
}

/// Reads the prompts of as many waiting sequences as fit into the batch.
std::vector<std::unique_ptr<Engine::Group>> Engine::start_waiting() {
  int64_t rows = 0, longest = 0;
  for (const auto& group : groups_) {
    rows += std::ssize(group->slots) * group->width;
    for (const Slot& slot : group->slots) longest = std::max(longest, slot.length());
  }
  std::vector<std::vector<Slot>> started;  // grouped by width
  while (!waiting_.empty() && fits(waiting_.front(), rows, longest)) {
    Slot slot = std::move(waiting_.front());
    waiting_.pop_front();
    const int64_t context = model_.context();
    if (std::ssize(slot.window) > context) {
      slot.window.erase(slot.window.begin(), slot.window.end() - std::max<int64_t>(context / 2, 1));
    }
    rows += rows_of(*slot.sequence);
    longest = std::max(longest, slot.length());
    const auto same = std::ranges::find_if(started, [&](const std::vector<Slot>& slots) {
      return rows_of(*slots[0].sequence) == rows_of(*slot.sequence);
    });
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
std::unique_ptr<Engine::Group> Engine::read(std::vector<Slot> slots) const {
  auto group = std::make_unique<Group>();
  group->width = rows_of(*slots[0].sequence);
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

Tensor Engine::first_logits(Group& group, std::span<const Slot* const> distinct) const {
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

void Engine::merge(std::vector<std::unique_ptr<Group>> fresh) {
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
void Engine::settle(Group& group) {
  const int64_t context = model_.context();
  int64_t over = 0;
  bool must_leave = false;
  for (Slot& slot : group.slots) {
    if (!slot.is_over && slot.sequence->slides && std::ssize(slot.window) > context) {
      must_leave = true;  // positions change: the last half of the context is read again
      waiting_.push_front(
          {.sequence = std::move(slot.sequence), .writer = std::move(slot.writer), .window = std::move(slot.window)});
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

}  // namespace attend
