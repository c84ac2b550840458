#include "inspect/steering.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "attend/base/error.h"
#include "attend/tensor/creation.h"
#include "io/printable.h"

namespace attend {
namespace {

constexpr size_t kMostSteering = 16;
constexpr double kStrongest = 1e6;

/// Whether the model only reports a value, so that a change of it has no effect.
bool is_only_reported(std::string_view point) {
  constexpr std::array<std::string_view, 6> kReported{":positions", ":types", ":queries", ":keys", ":text", ":pooled"};
  return point == ":states" || std::ranges::any_of(kReported, [&](auto name) { return point.ends_with(name); });
}

/// The mean of an activation over the tokens of a text that are not special.
std::vector<double> mean_of(const Run& run, const std::string& point) {
  for (const auto& [name, value] : run.values) {
    if (name != point) continue;
    const bool is_target = point.starts_with("decoder") || point.starts_with(":");  // a recurrent decoder has no path
    const size_t side = run.sides.size() > 1 && is_target ? 1 : 0;
    const std::vector<ShownToken>& tokens = run.sides[side].tokens;
    const auto values = value.to_vector<double>();
    const auto width = static_cast<size_t>(value.dim(1));
    std::vector<double> sum(width, 0.0);
    double count = 0;
    for (size_t row = 0; row < tokens.size() && row < static_cast<size_t>(value.dim(0)); ++row) {
      if (tokens[row].kind == TokenKind::special) continue;
      for (size_t i = 0; i < width; ++i) sum[i] += values[row * width + i];
      ++count;
    }
    require<ShapeError>(count > 0, "steer: the text ", in_quotes(run.sides[0].text),
                        side == 0 ? " has no tokens" : " has an empty translation; steer an encoder layer instead");
    for (double& one : sum) one /= count;
    return sum;
  }
  throw ShapeError("steer: the model has no activation " + in_quotes(point));
}

}  // namespace

std::vector<ActivationChange> steering_changes(const std::vector<Steering>& steer,
                                               const std::function<Run(const std::string& text)>& run_of) {
  std::vector<ActivationChange> changes;
  require<ShapeError>(steer.size() <= kMostSteering, "steer: at most ", kMostSteering, " directions, got ",
                      steer.size());
  for (const Steering& one : steer) {
    require<ShapeError>(std::abs(one.strength) <= kStrongest, "steer: the strength must be within ±", kStrongest,
                        ", got ", one.strength);
    require<ShapeError>(!is_only_reported(one.point), "steer: the model only reports ", in_quotes(one.point),
                        ", so a change of it has no effect; choose another activation");
    std::vector<double> direction = mean_of(run_of(one.toward), one.point);
    if (!one.away.empty()) {
      const std::vector<double> other = mean_of(run_of(one.away), one.point);
      for (size_t i = 0; i < direction.size(); ++i) direction[i] -= other[i];
    }
    const std::vector<float> values(direction.begin(), direction.end());
    changes.push_back({.point = one.point,
                       .value = from_span<float>(values, {1, std::ssize(values)}, kCpu),
                       .is_added = true,
                       .strength = one.strength});
  }
  return changes;
}

}  // namespace attend
