#pragma once

#include "generate/engine.h"
#include "generate/tiny_models.h"

// What the tests of the engine share: models of every kind that generate text, and sequences of different kinds.
namespace attend::testing {

constexpr int64_t kVocab = 13;

/// A model as a test parameter.
struct ModelCase {
  std::string name, architecture;
  std::map<std::string, std::string> settings{};
};
inline std::ostream& operator<<(std::ostream& out, const ModelCase& one) { return out << one.name; }

/// A tiny model. A translation model is trained for `steps` steps to copy its source.
inline auto created(const ModelCase& one, int steps) {
  auto model = tiny_model(one.architecture, kVocab, one.settings);
  if (const auto* pair = dynamic_cast<const PairModel*>(model.get())) {
    teach_copying(*pair, random_sources(40, 9, 5, 8), steps);
  }
  return model;
}

/// Sequence i of a mixed batch, from these ids: greedy, beam and sampled ones by turns, with at most 3 + 7 i mod
/// `spread` new tokens.
inline Sequence mixed_sequence(const Model& model, const std::vector<int32_t>& ids, size_t i, size_t spread) {
  Sequence one{.vocabulary = {.size = kVocab, .banned = {0, 1, 2}, .begin = 2, .ends = {3}}, .index = i};
  if (model.kind() == ModelKind::translation) {
    one.source = ids;
    one.prompt = {2};
  } else {
    one.prompt = {ids.begin(), ids.end() - 1};
    one.options.ends_at_limit = false;
  }
  one.limit = 3 + static_cast<int64_t>(i * 7 % spread);
  one.options.beam = i % 3 == 1 ? 3 : 1;
  if (i % 3 == 2) one.options.sampling = SamplingOptions{.temperature = 0.9, .seed = 4};
  return one;
}

}  // namespace attend::testing
