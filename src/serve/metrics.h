#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace attend {

/// Counts observations by size.
class Histogram {
 public:
  void add(double seconds);
  /// The lines of a metric in Prometheus' text format. `labels` is "" or `name="value"`.
  std::string text(const std::string& name, const std::string& labels) const;

 private:
  static constexpr std::array<double, 14> kBounds{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                                  0.25,  0.5,    1,     2.5,  5,     10,   60};
  std::array<std::atomic<int64_t>, kBounds.size() + 1> counts_{};
  std::atomic<int64_t> sum_{0};  // microseconds
};

/// The figures of one model.
struct ModelMetrics {
  std::atomic<int64_t> prompt_tokens{0}, generated_tokens{0};
  std::atomic<int64_t> waiting{0}, running{0}, tokens_in_flight{0};
  std::atomic<int64_t> cache_bytes{0};    ///< of keys and values
  std::atomic<int64_t> reused_tokens{0};  ///< prompt tokens whose keys and values were there already
  std::atomic<int64_t> drafted_tokens{0}, accepted_tokens{0};  ///< guessed tokens that were read; that were right
  std::atomic<int64_t> cancelled{0}, rejected{0};              ///< requests: the client hung up; the queue was full
  Histogram first_token, between_tokens, request;              ///< seconds
};

/// The figures of the server.
class Metrics {
 public:
  ModelMetrics& of(const std::string& model);
  void answered(const std::string& path, int status);
  std::string text() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, ModelMetrics> models_;
  std::map<std::pair<std::string, int>, int64_t> requests_;
};

}  // namespace attend
