#include "cli/explain_steps.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "attend/base/random.h"
#include "attend/ops/arithmetic.h"
#include "attend/ops/attention.h"
#include "attend/ops/matmul.h"
#include "attend/ops/position.h"
#include "attend/ops/shape.h"
#include "attend/tensor/creation.h"

namespace attend::cli {
namespace {

/// Numbers with one decimal from -limit to limit, which the tables show exactly, so that they can be checked by hand.
std::vector<double> short_numbers(RandomStream stream, int64_t count, double limit) {
  const auto steps = 2 * static_cast<uint32_t>(std::lround(10 * limit)) + 1;
  std::vector<double> numbers;
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t word = philox(stream.seed, static_cast<uint64_t>(i), stream.stream)[0];
    const auto step = static_cast<int64_t>(uint64_t{word} * steps >> 32);
    numbers.push_back(static_cast<double>(step - (steps - 1) / 2) / 10.0);
  }
  return numbers;
}

/// FNV-1a: the same token gets the same vector at every position.
uint64_t hash_of(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (unsigned char byte : text) hash = (hash ^ byte) * 0x100000001b3u;
  return hash;
}

Tensor embed(const std::vector<std::string>& tokens, const ExplainOptions& options) {
  std::vector<double> values;
  for (const std::string& token : tokens) {
    const auto numbers = short_numbers({options.seed, hash_of(token)}, options.dim, 1.5);
    values.insert(values.end(), numbers.begin(), numbers.end());
  }
  return tensor(values, {static_cast<int64_t>(tokens.size()), options.dim});
}

/// Entries of variance of about 1/dim, so that the output of the matrix has the variance of its input.
Tensor random_matrix(const ExplainOptions& options, uint64_t stream) {
  const double limit = std::max(0.1, std::sqrt(3.0 / static_cast<double>(options.dim)));
  return tensor(short_numbers({options.seed, stream}, options.dim * options.dim, limit), {options.dim, options.dim});
}

/// 0 for the keys a query may attend to, −∞ for later ones.
Tensor causal_bias(int64_t length) {
  std::vector<double> values(static_cast<size_t>(length * length));
  for (int64_t i = 0; i < length; ++i) {
    for (int64_t j = i + 1; j < length; ++j) {
      values[static_cast<size_t>(i * length + j)] = -std::numeric_limits<double>::infinity();
    }
  }
  return tensor(values, {length, length});
}

/// [length, dim] to [1, heads, length, dim / heads].
Tensor split_heads(const Tensor& x, int64_t heads) {
  return transpose(reshape(x, {1, x.dim(0), heads, x.dim(1) / heads}), 1, 2);
}

Tensor head_of(const Tensor& x, int64_t head) { return contiguous(select(select(x, 0, 0), 0, head)); }

}  // namespace

ExplainSteps explain_steps(std::vector<std::string> tokens, const ExplainOptions& options) {
  ExplainSteps steps{.tokens = std::move(tokens), .options = options};
  const auto length = static_cast<int64_t>(steps.tokens.size());
  steps.embeddings = steps.x = embed(steps.tokens, options);
  if (options.positions) {
    steps.positions = sinusoidal_positions(length, options.dim, 10000.0, DType::f64);
    steps.x = steps.embeddings + steps.positions;
  }
  Tensor q = steps.x, k = steps.x, v = steps.x;
  if (options.trainable) {
    q = matmul(steps.x, steps.query_matrix = random_matrix(options, 1));
    k = matmul(steps.x, steps.key_matrix = random_matrix(options, 2));
    v = matmul(steps.x, steps.value_matrix = random_matrix(options, 3));
  }
  q = split_heads(q, options.heads), k = split_heads(k, options.heads), v = split_heads(v, options.heads);
  steps.scale = 1 / std::sqrt(static_cast<double>(q.dim(-1)));
  const Tensor dots = matmul(q, transpose(k, -1, -2));  // [1, heads, length, length]
  const Tensor scaled = dots * steps.scale;
  const Tensor masked = options.causal ? scaled + causal_bias(length) : scaled;
  const AttentionOptions attention_options{.causal = options.causal};
  const auto [context, lse] = attention_with_lse(q, k, v, attention_options);
  const Tensor weights = attention_weights(q, k, lse, attention_options).values;
  for (int64_t h = 0; h < options.heads; ++h) {
    steps.heads.push_back({head_of(q, h), head_of(k, h), head_of(v, h), head_of(dots, h), head_of(scaled, h),
                           head_of(masked, h), head_of(weights, h), head_of(context, h)});
  }
  steps.joined = steps.output = contiguous(reshape(transpose(context, 1, 2), {length, options.dim}));
  if (options.trainable && options.heads > 1) {
    steps.output = matmul(steps.joined, steps.output_matrix = random_matrix(options, 4));
  }
  return steps;
}

}  // namespace attend::cli
