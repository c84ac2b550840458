#include "attend/generate/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "attend/base/error.h"
#include "attend/base/random.h"
#include "generate/writer.h"

namespace attend {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

/// A uniform double in [0, 1) with 53 random bits.
double uniform(uint64_t seed, DrawPlace place) {
  const auto words = philox(seed, uint64_t{place.copy} << 32 | place.position, place.text);
  return static_cast<double>((uint64_t{words[0]} << 32 | words[1]) >> 11) * 0x1p-53;
}

std::vector<float> adjusted(const DrawInputs& inputs, const SamplingOptions& options) {
  std::vector<float> values(inputs.logits.begin(), inputs.logits.end());
  if (options.repetition_penalty != 1) {
    std::vector<int32_t> seen(inputs.history.begin(), inputs.history.end());
    std::ranges::sort(seen);
    seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
    const auto penalty = static_cast<float>(options.repetition_penalty);
    for (const int32_t id : seen) {
      if (id < 0 || id >= std::ssize(values)) continue;
      float& value = values[static_cast<size_t>(id)];
      value = value > 0 ? value / penalty : value * penalty;
    }
  }
  const auto add = [&](int32_t id, float amount) {
    if (id >= 0 && id < std::ssize(values)) values[static_cast<size_t>(id)] += amount;
  };
  if (options.frequency_penalty != 0 || options.presence_penalty != 0) {
    std::map<int32_t, int64_t> counts;
    for (const int32_t id : inputs.written) ++counts[id];
    for (const auto& [id, count] : counts) {
      add(id, -static_cast<float>(options.frequency_penalty * static_cast<double>(count) + options.presence_penalty));
    }
  }
  for (const auto& [id, bias] : options.logit_bias) add(id, bias);
  for (const int32_t id : inputs.banned) {
    if (id >= 0 && id < std::ssize(values)) values[static_cast<size_t>(id)] = kNever;
  }
  return values;
}

/// Turns logits into unnormalised probabilities: e^((z − largest) / T).
struct Scale {
  float largest = 0;
  float temperature = 1;

  double weight(float value) const { return std::exp((value - largest) / temperature); }
};

/// Truncates sorted candidates to the shortest prefix that has the share `p` of `total`. False if all of them together
/// have less.
bool keep_share(std::vector<Continuation>& sorted, double p, double total, const Scale& scale) {
  double sum = 0;
  for (size_t i = 0; i < sorted.size(); ++i) {
    sum += scale.weight(sorted[i].value);
    if (sum < p * total) continue;
    sorted.resize(i + 1);
    return true;
  }
  return false;
}

/// The smallest set of largest values that has the share `p`. Usually few values suffice, so few are sorted at first
/// and more only if needed.
std::vector<Continuation> largest_share(std::span<const float> values, double p, const Scale& scale) {
  double total = 0;
  for (const float value : values) total += value > kNever ? scale.weight(value) : 0;
  std::vector<Continuation> kept;
  for (int64_t count = 64;; count *= 8) {
    top_values(values, count, kept);
    if (keep_share(kept, p, total, scale) || count >= std::ssize(values)) return kept;
  }
}

/// Drops candidates that are banned or below min_p.
void keep_likely(std::vector<Continuation>& kept, const SamplingOptions& options, const Scale& scale) {
  std::erase_if(kept, [&](const Continuation& c) {
    return c.value == kNever || (options.min_p > 0 && scale.weight(c.value) < options.min_p);
  });
}

/// The candidates that remain of the top_k best, after steps 4 and 5.
void keep_best(std::vector<Continuation>& kept, const SamplingOptions& options, const Scale& scale) {
  double total = 0;
  for (const Continuation& c : kept) total += scale.weight(c.value);
  if (options.top_p < 1) keep_share(kept, options.top_p, total, scale);
  keep_likely(kept, options, scale);
}

/// The candidates that remain after steps 3 to 5.
std::vector<Continuation> candidates(std::span<const float> values, const SamplingOptions& options,
                                     const Scale& scale) {
  std::vector<Continuation> kept;
  if (options.top_k > 0) {
    top_values(values, options.top_k, kept);
    keep_best(kept, options, scale);
    return kept;
  }
  if (options.top_p < 1) {
    kept = largest_share(values, options.top_p, scale);
  } else {
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i] > kNever) kept.push_back({static_cast<int32_t>(i), values[i]});
    }
  }
  keep_likely(kept, options, scale);
  return kept;
}

/// Inverse transform sampling: the candidate at `share`, in [0, 1), of the cumulative weight.
int32_t pick(std::span<const Continuation> kept, double share, const Scale& scale) {
  double total = 0;
  for (const Continuation& c : kept) total += scale.weight(c.value);
  double left = share * total;
  for (const Continuation& c : kept) {
    left -= scale.weight(c.value);
    if (left < 0) return c.id;
  }
  return kept.back().id;  // reached only through rounding
}

}  // namespace

void check_sampling(const SamplingOptions& options) {
  const auto check = [](const char* name, double value, double smallest, double largest, const char* range) {
    require<ShapeError>(value >= smallest && value <= largest, "sampling: ", name, " must be ", range, ", got ", value);
  };
  check("temperature", options.temperature, 0, 1e6, "from 0");
  check("top_k", static_cast<double>(options.top_k), 0, 1e12, "from 0");
  check("top_p", options.top_p, 0, 1, "from 0 to 1");
  check("min_p", options.min_p, 0, 1, "from 0 to 1");
  check("repetition_penalty", options.repetition_penalty, 1e-3, 1e3, "from 0.001 to 1000");
  check("frequency_penalty", options.frequency_penalty, -100, 100, "from -100 to 100");
  check("presence_penalty", options.presence_penalty, -100, 100, "from -100 to 100");
}

namespace {

/// Whether the best candidate is taken without a draw.
bool takes_best(const Scale& scale) { return scale.temperature == 0 || std::isinf(scale.largest); }

Scale scale_of(const std::vector<Continuation>& best, const SamplingOptions& options) {
  require<ShapeError>(!best.empty() && best[0].value > kNever, "sampling: all logits are −∞");
  return {best[0].value, static_cast<float>(options.temperature)};
}

}  // namespace

int32_t draw(const DrawInputs& inputs, const SamplingOptions& options, DrawPlace place) {
  const std::vector<float> values = adjusted(inputs, options);
  std::vector<Continuation> best;
  top_values(values, 1, best);
  const Scale scale = scale_of(best, options);
  if (takes_best(scale)) return best[0].id;
  return pick(candidates(values, options, scale), uniform(options.seed, place), scale);
}

int32_t draw_among(std::vector<Continuation> best, const SamplingOptions& options, DrawPlace place) {
  const Scale scale = scale_of(best, options);
  if (takes_best(scale)) return best[0].id;
  keep_best(best, options, scale);
  return pick(best, uniform(options.seed, place), scale);
}

}  // namespace attend
