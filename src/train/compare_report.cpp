#include "train/compare_report.h"

#include <algorithm>
#include <numeric>

#include "attend/base/error.h"
#include "attend/io/chart.h"
#include "attend/io/json.h"
#include "attend/text/bleu.h"
#include "attend/text/chrf.h"

namespace attend {
namespace {

/// The bounds of buckets of about equal size in the sorted lengths. A length never falls into two buckets.
std::vector<size_t> cuts_of(std::span<const int64_t> sorted, int64_t count) {
  std::vector<size_t> changes;
  for (size_t i = 1; i < sorted.size(); ++i) {
    if (sorted[i] != sorted[i - 1]) changes.push_back(i);
  }
  std::vector<size_t> cuts{0};
  for (int64_t bucket = 1; bucket < count; ++bucket) {
    const auto wanted = static_cast<double>(bucket) * static_cast<double>(sorted.size()) / static_cast<double>(count);
    const auto nearest = std::ranges::min_element(
        changes, {}, [wanted](size_t place) { return std::abs(static_cast<double>(place) - wanted); });
    if (nearest != changes.end() && *nearest > cuts.back()) cuts.push_back(*nearest);
  }
  cuts.push_back(sorted.size());
  return cuts;
}

/// The BLEU of some sentences. If no reference has four words, there are no 4-grams, and only shorter n-grams count.
double bleu_of(std::span<const int64_t> members, std::span<const BleuStatistics> sentences, BleuOptions options) {
  BleuStatistics sum;
  int64_t longest = 1;
  for (const int64_t member : members) {
    const BleuStatistics& sentence = sentences[static_cast<size_t>(member)];
    longest = std::max(longest, sentence.reference_length);
    sum += sentence;
  }
  options.max_order = std::min(options.max_order, longest);
  return bleu_score(sum, options).score;
}

Json to_json(const std::vector<LengthBucket>& buckets) {
  Json list = Json::array();
  for (const LengthBucket& bucket : buckets) {
    list.push_back({{"shortest", bucket.shortest},
                    {"longest", bucket.longest},
                    {"mean", bucket.mean},
                    {"sentences", bucket.members.size()}});
  }
  return list;
}

}  // namespace

std::vector<LengthBucket> length_buckets(std::span<const int64_t> lengths, int64_t count) {
  require<ShapeError>(count >= 1, "length_buckets: expected at least one bucket, got ", count);
  if (lengths.empty()) return {};
  std::vector<int64_t> order(lengths.size()), sorted;
  std::iota(order.begin(), order.end(), int64_t{0});
  const auto length = [&](int64_t i) { return lengths[static_cast<size_t>(i)]; };
  std::ranges::stable_sort(order, {}, length);
  for (const int64_t i : order) sorted.push_back(length(i));
  const std::vector<size_t> cuts = cuts_of(sorted, count);
  std::vector<LengthBucket> buckets;
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    const auto begin = static_cast<ptrdiff_t>(cuts[i]), end = static_cast<ptrdiff_t>(cuts[i + 1]);
    LengthBucket bucket{.shortest = sorted[cuts[i]], .longest = sorted[cuts[i + 1] - 1]};
    bucket.mean = static_cast<double>(std::accumulate(sorted.begin() + begin, sorted.begin() + end, int64_t{0})) /
                  static_cast<double>(end - begin);
    bucket.members.assign(order.begin() + begin, order.begin() + end);
    std::ranges::sort(bucket.members);
    buckets.push_back(std::move(bucket));
  }
  return buckets;
}

BleuOptions comparison_bleu(std::span<const std::string> targets, bool lowercase) {
  return {.tokenizer = usual_bleu_tokenizer(targets), .lowercase = lowercase};
}

Comparison comparison_of(std::span<const std::string> sources, const Tokenizer& tokenizer, int64_t buckets) {
  std::vector<int64_t> lengths;
  for (const std::string& source : sources) lengths.push_back(std::ssize(tokenizer.encode(source)));
  return {.buckets = length_buckets(lengths, buckets),
          .thirds = length_buckets(lengths, 3),
          .models = {},
          .sentences = std::ssize(sources)};
}

void add_model(Comparison& comparison, ComparedModel model, std::span<const std::string> hypotheses,
               std::span<const std::string> targets, const BleuOptions& options) {
  comparison.signature = bleu_signature(options);
  std::vector<BleuStatistics> sentences;
  std::vector<int64_t> all;
  ChrfStatistics chrf;
  for (size_t i = 0; i < hypotheses.size(); ++i) {
    const auto reference = targets.subspan(i, 1);
    sentences.push_back(bleu_statistics(hypotheses[i], reference, options));
    all.push_back(static_cast<int64_t>(i));
    chrf += chrf_statistics(hypotheses[i], reference, {.lowercase = options.lowercase});
  }
  for (const LengthBucket& bucket : comparison.buckets)
    model.bleu.push_back(bleu_of(bucket.members, sentences, options));
  for (const LengthBucket& third : comparison.thirds)
    model.thirds.push_back(bleu_of(third.members, sentences, options));
  model.bleu_all = bleu_of(all, sentences, options);
  model.chrf_all = chrf_score(chrf);
  comparison.models.push_back(std::move(model));
}

std::string comparison_chart(const Comparison& comparison) {
  Chart chart{.title = "Translation quality by sentence length",
              .x_label = "length of the source in tokens (mean of each bucket)",
              .y_label = "BLEU",
              .series = {},
              .y_min = 0};
  for (const ComparedModel& model : comparison.models) {
    ChartSeries series{.name = model.architecture, .points = {}};
    for (size_t i = 0; i < comparison.buckets.size(); ++i) {
      series.points.push_back({comparison.buckets[i].mean, model.bleu[i]});
    }
    chart.series.push_back(std::move(series));
  }
  return line_chart(chart);
}

std::string comparison_json(const Comparison& comparison) {
  Json models = Json::array();
  for (const ComparedModel& model : comparison.models) {
    models.push_back({{"architecture", model.architecture},
                      {"parameters", model.parameters},
                      {"steps", model.steps},
                      {"seconds", model.seconds},
                      {"tokens_per_second", model.tokens_per_second},
                      {"validation_loss", model.validation_loss},
                      {"bleu", model.bleu_all},
                      {"chrf", model.chrf_all},
                      {"bleu_by_bucket", model.bleu},
                      {"bleu_by_third", model.thirds}});
  }
  return Json{{"sentences", comparison.sentences},
              {"test", comparison.is_test_given ? "given" : "held out"},
              {"length", "tokens of the source"},
              {"signature", comparison.signature},
              {"buckets", to_json(comparison.buckets)},
              {"thirds", to_json(comparison.thirds)},
              {"models", std::move(models)}}
      .dump(2);
}

}  // namespace attend
