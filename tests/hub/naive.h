#pragma once

#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "attend/tensor/tensor.h"

// Textbook implementations of layers with f64 loops, to compare the fused ones with.
namespace attend::naive {

using Row = std::vector<double>;
using Matrix = std::vector<Row>;

/// The tensors of a file, read by name.
class Weights {
 public:
  explicit Weights(const std::map<std::string, Tensor>& tensors) : tensors_(tensors) {}

  bool has(const std::string& name) const { return tensors_.contains(name); }
  Row vector(const std::string& name) const { return tensors_.at(name).to_vector<double>(); }
  Matrix matrix(const std::string& name) const {
    const Row all = vector(name);
    const auto width = static_cast<size_t>(tensors_.at(name).dim(-1));
    Matrix rows;
    for (size_t at = 0; at < all.size(); at += width) {
      rows.emplace_back(all.begin() + static_cast<ptrdiff_t>(at), all.begin() + static_cast<ptrdiff_t>(at + width));
    }
    return rows;
  }

 private:
  const std::map<std::string, Tensor>& tensors_;
};

inline double dot(const Row& a, const Row& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

inline Matrix add(Matrix a, const Matrix& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = 0; j < a[i].size(); ++j) a[i][j] += b[i][j];
  }
  return a;
}

inline Matrix map(Matrix x, const std::function<double(double)>& f) {
  for (Row& row : x) {
    for (double& value : row) value = f(value);
  }
  return x;
}

/// x Wᵀ + b, with the bias if the file has one.
inline Matrix linear(const Weights& w, const std::string& name, const Matrix& x) {
  const Matrix weight = w.matrix(name + ".weight");
  const Row bias = w.has(name + ".bias") ? w.vector(name + ".bias") : Row(weight.size());
  Matrix result;
  for (const Row& row : x) {
    Row out;
    for (size_t o = 0; o < weight.size(); ++o) out.push_back(dot(weight[o], row) + bias[o]);
    result.push_back(std::move(out));
  }
  return result;
}

inline Matrix layer_norm(const Weights& w, const std::string& name, Matrix x, double eps) {
  const Row weight = w.vector(name + ".weight"), bias = w.vector(name + ".bias");
  for (Row& row : x) {
    double mean = 0, variance = 0;
    for (const double value : row) mean += value / static_cast<double>(row.size());
    for (const double value : row) variance += (value - mean) * (value - mean) / static_cast<double>(row.size());
    for (size_t i = 0; i < row.size(); ++i) row[i] = (row[i] - mean) / std::sqrt(variance + eps) * weight[i] + bias[i];
  }
  return x;
}

inline Matrix rms_norm(const Weights& w, const std::string& name, Matrix x, double eps) {
  const Row weight = w.vector(name + ".weight");
  for (Row& row : x) {
    const double mean = dot(row, row) / static_cast<double>(row.size());
    for (size_t i = 0; i < row.size(); ++i) row[i] = row[i] / std::sqrt(mean + eps) * weight[i];
  }
  return x;
}

inline double gelu(double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }
inline double gelu_tanh(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
inline double relu(double x) { return std::max(x, 0.0); }

struct AttentionSettings {
  size_t heads = 1;
  bool causal = false;
  double scale = 0;  ///< 0: 1 / √head
  std::function<double(size_t head, int64_t query, int64_t key)> bias{};
};

inline Matrix attention(const Matrix& q, const Matrix& k, const Matrix& v, const AttentionSettings& settings) {
  const size_t width = q[0].size() / settings.heads;
  const double scale = settings.scale > 0 ? settings.scale : 1 / std::sqrt(static_cast<double>(width));
  Matrix result(q.size(), Row(q[0].size()));
  for (size_t h = 0; h < settings.heads; ++h) {
    for (size_t i = 0; i < q.size(); ++i) {
      Row weights;
      double total = 0;
      const size_t seen = settings.causal ? i + 1 : k.size();
      for (size_t j = 0; j < seen; ++j) {
        double score = 0;
        for (size_t c = h * width; c < (h + 1) * width; ++c) score += q[i][c] * k[j][c];
        score *= scale;
        if (settings.bias) score += settings.bias(h, static_cast<int64_t>(i), static_cast<int64_t>(j));
        weights.push_back(std::exp(score));
        total += weights.back();
      }
      for (size_t j = 0; j < seen; ++j) {
        for (size_t c = h * width; c < (h + 1) * width; ++c) result[i][c] += weights[j] / total * v[j][c];
      }
    }
  }
  return result;
}

}  // namespace attend::naive
