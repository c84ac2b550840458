#include "attend/inspect/embeddings.h"

#include <algorithm>
#include <cmath>

#include "attend/autograd/autograd.h"
#include "attend/base/error.h"
#include "attend/base/random.h"
#include "attend/ops/arithmetic.h"
#include "attend/ops/linear.h"
#include "attend/ops/matmul.h"
#include "attend/ops/position.h"
#include "attend/ops/reduce.h"
#include "attend/ops/shape.h"
#include "attend/tensor/creation.h"
#include "generate/top.h"
#include "text/unicode.h"

namespace attend {
namespace {

constexpr int64_t kMostPoints = 20000, kMostNeighbours = 100;
constexpr int64_t kBlock = 8;  // vectors iterated; only two are used, but with more the first two converge faster
constexpr int kRounds = 120;

/// The parameter called `name`, or one whose name ends in `.name`. An empty tensor if there is none.
Tensor parameter_named(const Model& model, const std::string& name) {
  for (const auto& [known, tensor] : model.parameters()) {
    if (known == name || known.ends_with("." + name)) return tensor.detach();
  }
  return {};
}

Tensor vocabulary_of(const Model& model) {
  if (Tensor found = parameter_named(model, "embedding.weight"); found && found.rank() == 2) return found;
  if (const auto* pair = dynamic_cast<const PairModel*>(&model)) return pair->head().weight.detach();
  if (const auto* language = dynamic_cast<const LanguageModel*>(&model)) return language->head().weight.detach();
  throw Error("embeddings: a model of architecture " + model.architecture() + " has no token embeddings");
}

/// The position embeddings. Sinusoidal ones are computed for the first `most` positions only.
Tensor positions_of(const Model& model, int64_t most) {
  for (const char* name : {"positions.weight", "source_positions.weight"}) {
    if (Tensor found = parameter_named(model, name)) return found;
  }
  const bool is_computed = model.position_kind() == Positions::sinusoidal;
  require<Error>(is_computed, "embeddings: a model of architecture ", model.architecture(),
                 " has no position embeddings");
  return sinusoidal_positions(std::min(model.context(), most), vocabulary_of(model).dim(1));
}

/// Gram–Schmidt: makes the columns orthonormal.
void orthogonalize(std::vector<double>& v, int64_t rows) {
  const auto at = [&](int64_t row, int64_t column) -> double& { return v[static_cast<size_t>(row * kBlock + column)]; };
  for (int64_t c = 0; c < kBlock; ++c) {
    for (int64_t before = 0; before < c; ++before) {
      double dot = 0;
      for (int64_t r = 0; r < rows; ++r) dot += at(r, c) * at(r, before);
      for (int64_t r = 0; r < rows; ++r) at(r, c) -= dot * at(r, before);
    }
    double square = 0;
    for (int64_t r = 0; r < rows; ++r) square += at(r, c) * at(r, c);
    const double factor = square > 1e-300 ? 1 / std::sqrt(square) : 0;
    for (int64_t r = 0; r < rows; ++r) at(r, c) *= factor;
  }
}

struct Projection {
  std::vector<double> xy;  // [points, 2]
  std::array<double, 2> explained{};
  Tensor middle, axes;  // [1, dim] and [dim, 2]: a vector x lies at (x − middle) · axes
};

/// The first two principal components by simultaneous iteration: v ← orthogonal(xᵀ x v), with x centred. The sign of
/// each component is chosen so that its entry of largest magnitude is positive.
Projection principal_plane(const Tensor& table) {
  const int64_t dim = table.dim(1);
  const Tensor all = to(to(contiguous(table), kCpu), DType::f64);
  const Tensor middle = mean(all, 0, true), x = all - middle;
  std::vector<double> v(static_cast<size_t>(dim * kBlock));
  for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<double>(uniform_from_bits(philox(7, i, 0)[0])) - 0.5;
  orthogonalize(v, dim);
  const Tensor xt = transpose(x, 0, 1);
  for (int round = 0; round < kRounds; ++round) {
    v = matmul(xt, matmul(x, tensor(v, {dim, kBlock}))).to_vector<double>();
    orthogonalize(v, dim);
  }
  std::vector<double> plane(static_cast<size_t>(dim * 2));
  for (int64_t c = 0; c < 2; ++c) {
    double largest = 0;
    for (int64_t r = 0; r < dim; ++r) {
      const double value = v[static_cast<size_t>(r * kBlock + c)];
      if (std::abs(value) > std::abs(largest)) largest = value;
    }
    for (int64_t r = 0; r < dim; ++r) {
      plane[static_cast<size_t>(r * 2 + c)] = v[static_cast<size_t>(r * kBlock + c)] * (largest < 0 ? -1 : 1);
    }
  }
  const double total = sum(x * x).item();
  const Tensor axes = tensor(plane, {dim, 2});
  Projection result{.xy = matmul(x, axes).to_vector<double>(), .explained = {}, .middle = middle, .axes = axes};
  for (size_t i = 0; i < result.xy.size(); ++i) result.explained[i % 2] += result.xy[i] * result.xy[i];
  for (double& share : result.explained) share = total > 0 ? share / total : 0;
  return result;
}

template <class Name>
Plane plane_of(const Tensor& table, int64_t limit, std::optional<int64_t> also, const Name& name) {
  require<ShapeError>(limit >= 1 && limit <= kMostPoints, "embeddings: limit must be from 1 to ", kMostPoints, ", got ",
                      limit);
  const NoGrad scope;
  const int64_t count = std::min(limit, table.dim(0));
  const Projection projection = principal_plane(slice(table, 0, 0, count));
  Plane plane{.points = {}, .total = table.dim(0), .explained = projection.explained};
  for (int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(2 * i);
    plane.points.push_back({.id = static_cast<int32_t>(i),
                            .text = name(static_cast<int32_t>(i)),
                            .x = projection.xy[at],
                            .y = projection.xy[at + 1]});
  }
  if (also && *also >= count) {
    const Tensor row = to(to(contiguous(slice(table, 0, *also, *also + 1)), kCpu), DType::f64);
    const auto xy = matmul(row - projection.middle, projection.axes).to_vector<double>();
    const auto id = static_cast<int32_t>(*also);
    plane.points.push_back({.id = id, .text = name(id), .x = xy[0], .y = xy[1]});
  }
  return plane;
}

/// The squared norm of each row. Works on a few rows at a time, so that a bf16 table is never converted as a whole.
std::vector<float> squared_lengths(const Tensor& table) {
  constexpr int64_t kRows = 4096;
  std::vector<float> result;
  for (int64_t first = 0; first < table.dim(0); first += kRows) {
    const Tensor part = to(slice(table, 0, first, std::min(first + kRows, table.dim(0))), DType::f32);
    const std::vector<float> squares = sum(part * part, 1).to_vector<float>();
    result.insert(result.end(), squares.begin(), squares.end());
  }
  return result;
}

std::vector<TokenNeighbour> nearest(const Tokenizer& tokenizer, std::vector<float> values, int32_t self,
                                    int64_t count) {
  values[static_cast<size_t>(self)] = -INFINITY;
  std::vector<Continuation> best;
  top_values(values, std::min<int64_t>(count, std::ssize(values) - 1), best);
  std::vector<TokenNeighbour> result;
  for (const Continuation& one : best) {
    result.push_back({show_token(tokenizer, one.id), static_cast<double>(one.value)});
  }
  return result;
}

}  // namespace

Plane token_plane(const Model& model, const Tokenizer& tokenizer, int64_t limit, std::optional<int64_t> also) {
  const int64_t count = tokenizer.size();
  require<ShapeError>(!also || (*also >= 0 && *also < count), "embeddings: there is no token ", also.value_or(0),
                      "; there are ", count, ", counted from 0");
  return plane_of(slice(vocabulary_of(model), 0, 0, count), limit, also,
                  [&](int32_t id) { return show_token(tokenizer, id).text; });
}

Plane position_plane(const Model& model, int64_t limit) {
  const auto* image = dynamic_cast<const ImageModel*>(&model);
  const int64_t columns = image ? image->image_size() / image->patch_size() : 0;
  return plane_of(positions_of(model, std::clamp<int64_t>(limit, 1, kMostPoints)), limit, {}, [&](int32_t position) {
    return image ? show_patch(position, columns).text : std::to_string(position);
  });
}

TokenNeighbours token_neighbours(const Model& model, const Tokenizer& tokenizer, int32_t id, int64_t count) {
  require<ShapeError>(count >= 1 && count <= kMostNeighbours, "neighbours: count must be from 1 to ", kMostNeighbours,
                      ", got ", count);
  require<ShapeError>(id >= 0 && id < tokenizer.size(), "neighbours: there is no token ", id, "; there are ",
                      tokenizer.size(), ", counted from 0");
  const NoGrad scope;
  const Tensor table = slice(vocabulary_of(model), 0, 0, tokenizer.size());
  const std::vector<float> dots = linear(to(slice(table, 0, id, id + 1), DType::f32), table).to_vector<float>();
  const std::vector<float> squares = squared_lengths(table);
  std::vector<float> cosines(dots.size());
  for (size_t i = 0; i < dots.size(); ++i) {
    const float norm = std::sqrt(squares[i] * squares[static_cast<size_t>(id)]);
    cosines[i] = norm > 0 ? dots[i] / norm : 0;
  }
  return {.token = show_token(tokenizer, id),
          .dot = nearest(tokenizer, dots, id, count),
          .cosine = nearest(tokenizer, std::move(cosines), id, count)};
}

std::vector<ShownToken> find_tokens(const Tokenizer& tokenizer, const std::string& text, size_t count) {
  const std::string wanted = text::lowercased(repair_utf8(text).text);
  std::vector<ShownToken> equal, others;
  for (int32_t id = 0; id < tokenizer.size() && equal.size() < count; ++id) {
    ShownToken token = show_token(tokenizer, id);
    const std::string lower = text::lowercased(token.text);
    if (lower == wanted) {
      equal.push_back(std::move(token));
    } else if (others.size() < count && lower.find(wanted) != std::string::npos) {
      others.push_back(std::move(token));
    }
  }
  for (ShownToken& token : others) {
    if (equal.size() < count) equal.push_back(std::move(token));
  }
  return equal;
}

}  // namespace attend
