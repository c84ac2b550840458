#include "generate/engine.h"

#include <algorithm>

#include "attend/autograd/autograd.h"
#include "attend/base/error.h"
#include "attend/ops/shape.h"
#include "attend/tensor/creation.h"
#include "generate/batch.h"

namespace attend {
namespace {

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

void Slot::advance(const StepRows& rows) {
  try {
    writer->advance(rows);
  } catch (const Error&) {
    if (!sequence->on_error) throw;
    error = std::current_exception();
  }
}

void Slot::slide(int64_t context) {
  if (std::ssize(window) <= context) return;
  window.erase(window.begin(), window.end() - std::max<int64_t>(context / 2, 1));
}

void Slot::report(const SequenceStep& step) {
  if (error) {
    is_over = true;
    try {
      std::rethrow_exception(error);
    } catch (const Error& problem) {
      return sequence->on_error(problem);
    }
  }
  const bool goes_on = !sequence->on_step || sequence->on_step(step);
  is_over = !goes_on || writer->is_done();
  if (goes_on && is_over && sequence->on_done) sequence->on_done(writer->take());
  ++written;
  if (is_over) return;
  if (sequence->slides) window.push_back(writer->ids()[0]);
  if (drafter) drafter->push(writer->ids()[0]);
}

Slot Slot::again() {
  return {.sequence = std::move(sequence),
          .writer = std::move(writer),
          .window = std::move(window),
          .written = written,
          .drafter = std::move(drafter)};
}

bool fits(const EngineOptions& options, const Slot& slot, int64_t rows, int64_t longest) {
  if (rows == 0) return true;
  const int64_t all = rows + slot.width(), length = std::max(longest, slot.length());
  return all <= options.rows && all <= options.tokens / length;
}

struct Engine::State {
  std::unique_ptr<RunningBatch> batch;
  std::deque<Slot> waiting;
};

Engine::Engine(const Model& model, const EngineOptions& options) : model_(model), state_(std::make_unique<State>()) {
  const bool writes = model.kind() == ModelKind::translation || model.kind() == ModelKind::language;
  require<ShapeError>(writes, "engine: architecture ", model.architecture(), " does not generate text");
  require<ShapeError>(options.prompt_tokens >= 1, "engine: prompt_tokens must be at least 1, got ",
                      options.prompt_tokens);
  require<ShapeError>(options.draft_tokens >= 0 && options.draft_tokens <= kMostDraftTokens,
                      "engine: draft_tokens must be from 0 to ", kMostDraftTokens, ", got ", options.draft_tokens);
  if (options.use_cache) state_->batch = create_paged_batch(model, options);
  if (!state_->batch) state_->batch = create_dense_batch(model, options);
}

Engine::~Engine() = default;

void Engine::add(Sequence sequence) {
  const int64_t context = model_.context();
  require<ShapeError>(std::ssize(sequence.source) <= context, "search: a source has ", sequence.source.size(),
                      " tokens, but the model's context is ", context);
  require<ShapeError>(!sequence.prompt.empty() && (sequence.slides || std::ssize(sequence.prompt) <= context),
                      "search: a prompt has ", sequence.prompt.size(), " tokens, but the model's context is ", context);
  Slot slot{.sequence = std::make_unique<Sequence>(std::move(sequence))};
  require<ShapeError>(!slot.sequence->slides || slot.width() == 1, "engine: a sliding sequence must have one row, got ",
                      slot.width());
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
  state_->batch->check(slot);
  state_->waiting.push_back(std::move(slot));
}

bool Engine::step() {
  const NoGrad scope;
  std::erase_if(state_->waiting, [](const Slot& slot) { return !slot.is_wanted(); });
  return state_->batch->step(state_->waiting);
}

EngineCounters Engine::counters() const {
  EngineCounters result = state_->batch->counters();
  result.waiting = std::ssize(state_->waiting);
  return result;
}

}  // namespace attend
