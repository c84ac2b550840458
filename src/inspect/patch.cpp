#include "attend/inspect/patch.h"

#include <algorithm>
#include <cstring>

#include "attend/autograd/autograd.h"
#include "attend/base/error.h"
#include "attend/ops/shape.h"
#include "generate/top.h"
#include "inspect/structure.h"

namespace attend {
namespace {

void require_alike(const Experiment& a, const Experiment& b) {
  require<ShapeError>(a.model().model == b.model().model, "patch: both runs must be of the same model");
  for (size_t i = 0; i < a.sides().size(); ++i) {
    const RunSide &own = a.sides()[i], &other = b.sides()[i];
    require<ShapeError>(own.tokens.size() == other.tokens.size(), "patch: the ", own.name, " has ", own.tokens.size(),
                        " tokens, but that of the other run has ", other.tokens.size(),
                        "; choose texts with the same number of tokens");
  }
}

ActivationChange change_of(const Patch& patch, const ActivationRecorder& other, int64_t heads) {
  ActivationChange change{.point = patch.point, .value = select(other.at(patch.point), 0, 0), .places = patch.places};
  if (patch.head >= 0) change.head = patch.head, change.heads = heads;
  return change;
}

int64_t heads_at(const Experiment& experiment, const std::string& point) {
  return attention_at(*experiment.model().model, experiment.stacks(), point.substr(0, point.find(':'))).config.heads;
}

class Sweep {
 public:
  Sweep(const Experiment& experiment, const Experiment& other, const PatchOptions& options)
      : experiment_(experiment), options_(options) {
    require_alike(experiment, other);
    const NoGrad scope;
    const Tensor own = experiment.logits(&seen_), theirs = other.logits(&other_);
    result_.goal = goal_of(own, theirs);
    result_.value = goal_value(own, result_.goal.output, result_.goal).item();
    result_.other = goal_value(theirs, result_.goal.output, result_.goal).item();
    plan();
  }

  PatchResult run() {
    const NoGrad scope;
    int64_t done = 0;
    for (PatchMap& map : result_.maps) {
      for (const std::string& point : map.points) {
        std::vector<double>& row = map.values.emplace_back();
        for (int64_t column = 0; column < map.columns; ++column) {
          if (options_.on_step) options_.on_step(done++, total_);
          Patch patch{.point = point, .places = {}};
          map.kind == PatchKind::head ? void(patch.head = column) : patch.places.push_back(column);
          row.push_back(changes_nothing(patch, map.columns) ? result_.value : value_with(patch));
          if (options_.on_partial) options_.on_partial(result_);
        }
      }
    }
    return std::move(result_);
  }

 private:
  Goal goal_of(const Tensor& own, const Tensor& theirs) const {
    Goal goal = options_.goal;
    if (goal.wanted >= 0) return resolved(experiment_, goal);
    require<ShapeError>(goal.output < experiment_.outputs(), "patch: there is no output ", goal.output, "; there are ",
                        experiment_.outputs(), ", counted from 0");
    const auto best = [&](const Tensor& logits, int64_t output) {
      std::vector<Continuation> top;
      top_values(select(logits, 0, output).to_vector<float>(), 1, top);
      require<Error>(!top.empty(), "patch: the model computed no numbers");
      return top[0].id;
    };
    if (goal.output < 0) {
      // Both texts may end alike: go back to where the runs differ.
      goal.output = experiment_.usual_output();
      for (int64_t output = goal.output; output >= 0; --output) {
        if (best(theirs, output) == (goal.contrast < 0 ? best(own, output) : goal.contrast)) continue;
        goal.output = output;
        break;
      }
    }
    goal.wanted = best(theirs, goal.output);
    if (goal.contrast < 0) goal.contrast = best(own, goal.output);
    require<ShapeError>(goal.wanted != goal.contrast, "patch: both runs prefer ",
                        experiment_.class_token(goal.wanted).text, " at output ", goal.output,
                        "; name two classes to compare");
    return resolved(experiment_, goal);
  }

  bool wants(PatchKind kind) const {
    return options_.kinds.empty() || std::ranges::find(options_.kinds, kind) != options_.kinds.end();
  }

  /// The maps, without values.
  void plan() {
    for (const StackPlace& stack : experiment_.stacks()) {
      const int64_t places = std::ssize(experiment_.sides()[static_cast<size_t>(stack.side)].tokens);
      PatchMap residual{PatchKind::residual, stack.name, {stack.embedded}, places, {}};
      PatchMap own{PatchKind::attention, stack.name, {}, places, {}},
          cross{PatchKind::cross, stack.name, {}, places, {}};
      PatchMap network{PatchKind::feed_forward, stack.name, {}, places, {}};
      PatchMap heads{PatchKind::head, stack.name, {}, stack.heads, {}};
      if (stack.layers == 0) {
        for (const char* state : {"encoder:states", ":outputs", ":context"}) {
          const bool is_own = (stack.name == "encoder") == std::string_view(state).starts_with("encoder");
          if (is_own && seen_.values.contains(state)) residual.points.emplace_back(state);
        }
      }
      for (int64_t i = 0; i < stack.layers; ++i) {
        residual.points.push_back(stack.output(i));
        own.points.push_back(stack.layer(i) + ".attention:branch");
        network.points.push_back(stack.layer(i) + ".feed_forward:branch");
        heads.points.push_back(stack.layer(i) + ".attention:attended");
        if (!stack.has_cross) continue;
        cross.points.push_back(stack.layer(i) + ".cross_attention:branch");
        heads.points.push_back(stack.layer(i) + ".cross_attention:attended");
      }
      for (PatchMap* map : {&residual, &own, &cross, &network, &heads}) {
        if (map->points.empty() || !wants(map->kind)) continue;
        total_ += std::ssize(map->points) * map->columns;
        result_.maps.push_back(std::move(*map));
      }
    }
    require<ShapeError>(!result_.maps.empty(), "patch: the model has no activation of these kinds");
    require<ShapeError>(total_ <= options_.most_runs, "patch: ", total_, " patches, but at most ", options_.most_runs,
                        " are allowed; use a shorter text or fewer kinds");
  }

  /// Whether both runs have the same bits there, as before the first word in which two texts of a causal model differ.
  bool changes_nothing(const Patch& patch, int64_t heads) const {
    const auto part = [&](const ActivationRecorder& seen) {
      const Tensor value = select(seen.at(patch.point), 0, 0);  // [places, width]
      const int64_t size = value.dim(1) / (patch.head >= 0 ? heads : 1);
      const Tensor chosen = patch.head >= 0 ? slice(value, 1, patch.head * size, (patch.head + 1) * size)
                                            : slice(value, 0, patch.places[0], patch.places[0] + 1);
      return chosen.to_vector<float>();
    };
    const std::vector<float> own = part(seen_), other = part(other_);
    return std::memcmp(own.data(), other.data(), own.size() * sizeof(float)) == 0;
  }

  double value_with(const Patch& patch) {
    ActivationChanger changer;
    changer.changes.push_back(change_of(patch, other_, patch.head >= 0 ? heads_at(experiment_, patch.point) : 1));
    add_known(patch.point, changer.known);
    const int64_t output = result_.goal.output;
    return goal_value(experiment_.logits(&changer, {output, output + 1}), 0, result_.goal).item();
  }

  /// The outputs of all layers before the one that has `point`.
  void add_known(const std::string& point, std::map<std::string, Tensor>& known) const {
    for (const StackPlace& stack : experiment_.stacks()) {
      const bool has_point = point == stack.embedded;
      if (has_point) return;
      for (int64_t i = 0; i < stack.layers; ++i) {
        const std::string layer = stack.layer(i);
        if (point.starts_with(layer + ".")) return;
        known[layer] = seen_.at(stack.output(i));
        if (point == stack.output(i)) return;
      }
    }
  }

  const Experiment& experiment_;
  const PatchOptions& options_;
  ActivationRecorder seen_, other_;
  PatchResult result_;
  int64_t total_ = 0;
};

}  // namespace

const char* name_of(PatchKind kind) {
  switch (kind) {
    case PatchKind::residual:
      return "residual";
    case PatchKind::attention:
      return "attention";
    case PatchKind::cross:
      return "cross";
    case PatchKind::feed_forward:
      return "feed_forward";
    case PatchKind::head:
      return "head";
  }
  return "";
}

PatchResult patch_sweep(const Experiment& experiment, const Experiment& other, const PatchOptions& options) {
  return Sweep(experiment, other, options).run();
}

Tensor patched_logits(const Experiment& experiment, const Experiment& other, const std::vector<Patch>& patches) {
  require_alike(experiment, other);
  const NoGrad scope;
  ActivationRecorder theirs;
  other.logits(&theirs);
  ActivationChanger changer;
  for (const Patch& patch : patches) {
    changer.changes.push_back(change_of(patch, theirs, patch.head >= 0 ? heads_at(experiment, patch.point) : 1));
  }
  return experiment.logits(&changer);
}

}  // namespace attend
