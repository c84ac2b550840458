#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "attend/nn/feed_forward.h"
#include "attend/nn/recurrent.h"

// A model's config is a plain struct that lists its settings once in a static settings(visit), which calls
// visit(name, member, help) or visit(name, member, help, most) for each of them: the name is that of config.json and of
// the command line, `most` the largest number allowed (the smallest is 0).
namespace attend {

constexpr double kNoLimit = 9007199254740992.0;  // the largest number that JSON's readers agree on

/// The largest share of values that may be dropped.
constexpr double kMostDropout = 0.99;
/// The largest number that norms may add to a variance.
constexpr double kMostEps = 1;
// Beyond what any model has: a config that says more is damaged or hostile.
constexpr double kMostLayers = 1000, kMostWidth = 1 << 20, kMostVocab = 1 << 24, kMostContext = 1 << 24;
constexpr double kMostTypes = 1 << 16;

/// How a model knows the order of its tokens.
enum class Positions { none, sinusoidal, learned, rotary, alibi, relative };
/// How a recurrent decoder compares its state with the encoder's.
enum class Score { additive, dot, general };
/// How an encoder turns the vectors of a text into one.
enum class Pooling { mean, first };
/// What becomes of that one vector before the classifier: nothing, or a layer of its width with this activation.
enum class Pooler { none, tanh, relu };

/// Which projections of attention have biases.
enum class AttentionBias { as_others, none, inputs, all };
/// How rotary positions are stretched over a longer context than the model was first trained for.
enum class RopeScaling { none, linear, llama3 };

// What the values of an enumeration are called, in order.
constexpr std::array<std::string_view, 6> names_of(Positions) {
  return {"none", "sinusoidal", "learned", "rotary", "alibi", "relative"};
}
constexpr std::array<std::string_view, 4> names_of(AttentionBias) { return {"as-others", "none", "inputs", "all"}; }
constexpr std::array<std::string_view, 3> names_of(RopeScaling) { return {"none", "linear", "llama3"}; }
constexpr std::array<std::string_view, 3> names_of(Score) { return {"additive", "dot", "general"}; }
constexpr std::array<std::string_view, 2> names_of(Pooling) { return {"mean", "first"}; }
constexpr std::array<std::string_view, 3> names_of(Pooler) { return {"none", "tanh", "relu"}; }
constexpr std::array<std::string_view, 4> names_of(CellKind) { return {"tanh", "relu", "gru", "lstm"}; }
constexpr std::array<std::string_view, 7> names_of(Activation) {
  return {"relu", "gelu", "gelu_tanh", "silu", "tanh", "sigmoid", "quick_gelu"};
}

/// A setting as a command line or a page shows it.
struct SettingInfo {
  std::string name, help;
  std::string kind;                  ///< "integer", "number", "yes or no", "choice", "text" or "list"
  std::vector<std::string> choices;  ///< of a choice
};

/// The name a setting had in version 0.1, which is still accepted; empty if it has not changed.
std::string_view former_name(std::string_view name);

/// The setting with this name or former name; null if there is none.
const SettingInfo* find_setting(const std::vector<SettingInfo>& settings, std::string_view name);

}  // namespace attend
