#include "models/rope_settings.h"

#include <cmath>
#include <numbers>

#include "attend/tensor/creation.h"

namespace attend {
namespace {

/// Llama 3.1's RoPE scaling: waves much shorter than the first context are unchanged, much longer ones are scaled by
/// the full factor, and those in between by an interpolated one.
double llama3(double frequency, const GptConfig& config) {
  const auto context = static_cast<double>(config.rope_context);
  const double waves = context * frequency / (2 * std::numbers::pi);  // number of waves in the first context
  if (waves < config.rope_low) return frequency / config.rope_factor;
  if (waves > config.rope_high) return frequency;
  const double share = (waves - config.rope_low) / (config.rope_high - config.rope_low);
  return (1 - share) * frequency / config.rope_factor + share * frequency;
}

}  // namespace

RopeOptions rope_of(const GptConfig& config) {
  const int64_t width = config.head_dim > 0 ? config.head_dim : config.dim / config.heads;
  const int64_t dims = config.rope_dims > 0 ? config.rope_dims : width;
  require<ShapeError>(dims % 2 == 0 && dims <= width,
                      "gpt: RoPE needs an even number of features, at most head_dim = ", width, ", got ", dims);
  require<ShapeError>(config.rope_theta > 0 && config.rope_factor > 0,
                      "gpt: rope_theta and rope_factor must be positive, got ", config.rope_theta, " and ",
                      config.rope_factor);
  RopeOptions options{.base = config.rope_theta, .dims = config.rope_dims};
  if (config.rope_scaling == RopeScaling::none) return options;
  require<ShapeError>(config.rope_scaling != RopeScaling::llama3 || config.rope_low < config.rope_high,
                      "gpt: rope_low must be below rope_high, got ", config.rope_low, " and ", config.rope_high);
  std::vector<double> frequencies;
  for (int64_t i = 0; i < dims / 2; ++i) {
    const double plain = std::pow(config.rope_theta, -2.0 * static_cast<double>(i) / static_cast<double>(dims));
    const bool is_linear = config.rope_scaling == RopeScaling::linear;
    frequencies.push_back(is_linear ? plain / config.rope_factor : llama3(plain, config));
  }
  options.frequencies = tensor<double>(frequencies, {dims / 2});
  return options;
}

}  // namespace attend
