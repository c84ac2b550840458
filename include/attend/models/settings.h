#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "attend/nn/feed_forward.h"
#include "attend/nn/recurrent.h"

// A model's config is a plain struct. Its static function settings(visit) calls visit(name, member, help) or
// visit(name, member, help, most) for each setting. `name` is the name in config.json and on the command line, `help`
// is shown by `attend train --help`, and `most` is the largest number allowed. The smallest number allowed is 0.
namespace attend {

constexpr double kNoLimit = 9007199254740992.0;  // 2^53: all JSON parsers represent smaller integers exactly

/// Largest dropout probability.
constexpr double kMostDropout = 0.99;
/// Largest epsilon in norms.
constexpr double kMostEps = 1;
// Larger than in any real model: a config with a larger number is damaged or malicious.
constexpr double kMostLayers = 1000, kMostWidth = 1 << 20, kMostVocab = 1 << 24, kMostContext = 1 << 24;
constexpr double kMostTypes = 1 << 16;

/// Position encodings.
enum class Positions { none, sinusoidal, learned, rotary, alibi, relative };
/// Score functions of a recurrent decoder's attention.
enum class Score { additive, dot, general };
/// How an encoder computes one vector from the token vectors of a text.
enum class Pooling { mean, first };
/// The activation of a layer between the pooled vector and the classifier; none: no such layer.
enum class Pooler { none, tanh, relu };

/// Which attention projections have biases. as_others: as GptConfig::bias; inputs: query, key and value.
enum class AttentionBias { as_others, none, inputs, all };
/// How RoPE is scaled to a longer context than that of the first training.
enum class RopeScaling { none, linear, llama3 };

// The names of an enumeration's values, in order.
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

/// The description of a setting, for help texts.
struct SettingInfo {
  std::string name, help;
  std::string kind;                  ///< "integer", "number", "yes or no", "choice", "text" or "list"
  std::vector<std::string> choices;  ///< allowed values if `kind` is "choice"
};

/// The former name of a setting, from version 0.1, which configs and options may still use; empty if there is none.
std::string_view former_name(std::string_view name);

/// The setting with this name or former name; null if there is none.
const SettingInfo* find_setting(const std::vector<SettingInfo>& settings, std::string_view name);

}  // namespace attend
