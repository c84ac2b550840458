#include "attend/serve/watch.h"

#include <cmath>

#include "attend/models/registry.h"
#include "attend/nn/parameters.h"

namespace attend {
namespace {

/// A copy of a model that does not share its weights.
std::shared_ptr<const Model> copy_of(const Model& model) {
  Rng rng;
  std::shared_ptr<Model> copy = create_model(model.config(), rng);
  std::map<std::string, Tensor> values;
  for (const auto& [name, tensor] : model.parameters()) values[name] = tensor.detach();
  load_values(copy->parameters(), values);
  return copy;
}

InspectedModel inspected(const TrainingFolder& folder, const WatchOptions& options) {
  InspectedModel result{.name = options.name,
                        .model = copy_of(folder.model()),
                        .tokenizer = folder.data().tokenizer,
                        .example = options.text,
                        .example_target = {}};
  const auto& samples = folder.data().samples;
  if (result.example.empty() && !samples.empty()) {
    result.example = samples[0].source;
    if (folder.model().kind() == ModelKind::translation) result.example_target = samples[0].target;
  }
  choose_example(result);
  return result;
}

/// Limit of the target that the model generates if none is given: an untrained model would write nonsense up to its
/// context.
constexpr int64_t kMostWritten = 32;

/// The next step with a snapshot: 0, 1, 2, 3, 4, 6, 8, 11, …, each about a third larger than the last.
int64_t after(int64_t step) { return step + 1 + step / 3; }

}  // namespace

struct TrainingWatch::State {
  State(const TrainingFolder& watched, const WatchOptions& options)
      : folder(watched),
        first(inspected(watched, options)),
        feed(std::make_shared<TrainingFeed>(watched.steps(),
                                            WatchedSentence{.text = first.example, .target = first.example_target},
                                            watched.training().label_smoothing)),
        api({first}, {.version = options.version, .page = options.page}),
        server(api, options.server) {
    api.set_training(0, feed);
    server.start();
  }

  /// Never throws: a failed snapshot must not stop the training. The page then lacks that snapshot.
  void snapshot(int64_t step) {
    try {
      const std::shared_ptr<const Model> model = copy_of(folder.model());
      const WatchedSentence sentence = feed->sentence();
      const RunOptions options{.text = sentence.text,
                               .target = sentence.target,
                               .most_written = kMostWritten,
                               .beam = page_beam(first.rules)};
      feed->add_snapshot(step, capture(*model, *first.tokenizer, options), sentence);
      api.replace_model(0, model);
      last = step;
    } catch (const std::exception& error) {
      if (note) note(std::string("no snapshot at step ") + std::to_string(step) + ": " + error.what());
    }
  }

  const TrainingFolder& folder;
  InspectedModel first;
  std::shared_ptr<TrainingFeed> feed;
  Api api;
  Server server;
  int64_t last = -1, next = 0;
  std::function<void(const std::string&)> note;
};

TrainingWatch::TrainingWatch(const TrainingFolder& folder, const WatchOptions& options)
    : state_(std::make_unique<State>(folder, options)) {}

TrainingWatch::~TrainingWatch() = default;

std::string TrainingWatch::address() const { return state_->server.address(); }

TrainingObserver TrainingWatch::observer(TrainingObserver inner) {
  State* state = state_.get();
  TrainingObserver outer = inner;
  state->note = inner.note;
  outer.started = [=] {
    if (inner.started) inner.started();
    state->snapshot(0);
  };
  outer.stepped = [=](int64_t step) {
    if (inner.stepped) inner.stepped(step);
    if (step < state->next && !state->feed->wants_snapshot()) return;
    state->snapshot(step);
    if (step >= state->next) state->next = after(step);
  };
  outer.step = [=](const StepReport& report) {
    if (inner.step) inner.step(report);
    state->feed->add(report);
  };
  outer.validation = [=](const ValidationReport& report) {
    if (inner.validation) inner.validation(report);
    state->feed->add(report);
    if (state->last != report.step) state->snapshot(report.step);
  };
  return outer;
}

void TrainingWatch::finish() {
  state_->snapshot(state_->folder.steps());
  state_->feed->finish();
}

}  // namespace attend
