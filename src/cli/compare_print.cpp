#include "cli/compare_print.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>

#include "cli/train_print.h"

namespace attend::cli {
namespace {

std::string one_decimal(double value) {
  char text[64];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

std::string range_of(const LengthBucket& bucket) {
  const std::string range = bucket.shortest == bucket.longest
                                ? std::to_string(bucket.longest)
                                : std::to_string(bucket.shortest) + "–" + std::to_string(bucket.longest);
  return range + (bucket.longest == 1 ? " token" : " tokens");
}

/// The table: each row has a label, the number of sentences, and one cell per model.
class Rows {
 public:
  explicit Rows(const Comparison& comparison) : models_(comparison.models) {
    table_.columns.push_back("sentences");
    for (const ComparedModel& model : models_) {
      table_.columns.push_back(model.architecture);
      for (const double bleu : model.bleu) best_ = std::max(best_, bleu);
    }
  }

  /// Adds a row of BLEU scores, shaded from 0 to the highest score of all.
  void add_bleu(const std::string& label, int64_t sentences, const std::function<double(const ComparedModel&)>& bleu) {
    start(label, grouped(static_cast<double>(sentences)));
    for (const ComparedModel& model : models_) {
      table_.cells.back().push_back({.text = one_decimal(bleu(model)), .share = bleu(model) / best_});
    }
  }
  void add_text(const std::string& label, const std::function<std::string(const ComparedModel&)>& text) {
    start(label, "");
    for (const ComparedModel& model : models_) table_.cells.back().push_back({.text = text(model)});
  }
  const Table& table() const { return table_; }

 private:
  void start(const std::string& label, const std::string& sentences) {
    table_.rows.push_back(label);
    table_.cells.push_back({{.text = sentences, .faint = true}});
  }

  const std::vector<ComparedModel>& models_;
  Table table_;
  double best_ = 1e-9;
};

/// `81 %`: `part` as a share of `whole`.
std::string share(double part, double whole) {
  return whole > 0 ? std::to_string(std::lround(100 * part / whole)) + " %" : "nothing";
}

}  // namespace

void print_comparison(const Terminal& terminal, const Comparison& comparison, const std::string& folder) {
  Rows rows(comparison);
  for (size_t i = 0; i < comparison.buckets.size(); ++i) {
    const LengthBucket& bucket = comparison.buckets[i];
    rows.add_bleu(range_of(bucket), std::ssize(bucket.members), [i](const ComparedModel& m) { return m.bleu[i]; });
  }
  const bool has_thirds = comparison.thirds.size() > 1;
  if (has_thirds) {
    const auto longest = comparison.thirds.size() - 1;
    rows.add_bleu("shortest third", std::ssize(comparison.thirds.front().members),
                  [](const ComparedModel& m) { return m.thirds.front(); });
    rows.add_bleu("longest third", std::ssize(comparison.thirds[longest].members),
                  [](const ComparedModel& m) { return m.thirds.back(); });
  }
  rows.add_bleu("all", comparison.sentences, [](const ComparedModel& m) { return m.bleu_all; });
  rows.add_text("chrF of all", [](const ComparedModel& m) { return one_decimal(m.chrf_all); });
  rows.add_text("parameters", [](const ComparedModel& m) { return grouped(static_cast<double>(m.parameters)); });
  rows.add_text("training time", [](const ComparedModel& m) { return clock_time(m.seconds); });
  rows.add_text("steps", [](const ComparedModel& m) { return grouped(static_cast<double>(m.steps)); });

  terminal.out << '\n' << bold(terminal, "BLEU by source length") << '\n';
  print_table(terminal, rows.table());
  terminal.out << "   " << faint(terminal, comparison.signature) << "\n\n";
  if (has_thirds) {
    std::string text = "On the longest third of sentences";
    for (const ComparedModel& model : comparison.models) {
      const bool is_first = &model == &comparison.models.front(), is_last = &model == &comparison.models.back();
      text += (is_first  ? " "
               : is_last ? " and "
                         : ", ") +
              model.architecture + " keeps " + share(model.thirds.back(), model.thirds.front());
    }
    print_paragraph(terminal, text + " of its BLEU on the shortest.");
  }
  if (!comparison.is_test_given) {
    print_paragraph(terminal,
                    "The test sentences were held out of training, but also selected each model's best step; use "
                    "--test to give separate ones.");
  }
  terminal.out << "   The figure is in " << folder << "/compare.svg, all numbers in " << folder << "/compare.json\n";
}

}  // namespace attend::cli
