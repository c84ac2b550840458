#include "cli/evaluate_print.h"

#include <cstdio>

#include "attend/text/segment.h"
#include "cli/train_print.h"

namespace attend::cli {
namespace {
constexpr int kNameColumns = 10, kValueColumns = 9;
constexpr size_t kLabelsInTable = 30;

std::string fixed(double value, int decimals) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}
/// Four decimals, fewer for large numbers.
std::string metric(double value) {
  char text[64];
  std::snprintf(text, sizeof text, value < 1000 ? "%.4f" : value < 1e6 ? "%.1f" : "%.3g", value);
  return text;
}
std::string counted(int64_t count) { return grouped(static_cast<double>(count)); }

std::string counted(int64_t count, const char* one, const char* many) {
  return counted(count) + " " + (count == 1 ? one : many);
}

/// Prints `name     value   note`.
void print_line(const Terminal& terminal, const std::string& name, const std::string& value, const std::string& note) {
  const auto blanks = [](int count) { return std::string(static_cast<size_t>(std::max(count, 0)), ' '); };
  terminal.out << name << blanks(kNameColumns - display_width(name)) << blanks(kValueColumns - display_width(value))
               << bold(terminal, value) << (note.empty() ? "" : "   " + faint(terminal, note)) << '\n';
}

std::string rate(int64_t tokens, double seconds) {
  return grouped(static_cast<double>(tokens) / std::max(seconds, 1e-9)) + " tokens/s";
}

void print_loss(const Terminal& terminal, const Likelihood& likelihood) {
  print_line(terminal, "loss", metric(likelihood.loss()), "nats per token, " + counted(likelihood.tokens) + " tokens");
  print_line(terminal, "perplexity", metric(likelihood.perplexity()), "per token");
}

Table scores_table(const LabelMeasures& measures) {
  Table table{.columns = {"precision", "recall", "F1", "texts"}, .rows = {}, .cells = {}};
  for (const LabelScore& label : measures.labels) {
    table.rows.push_back(fitted(visible(label.label), 40));
    table.cells.push_back({{fixed(100 * label.precision(), 1)},
                           {fixed(100 * label.recall(), 1)},
                           {fixed(100 * label.f1(), 1)},
                           {counted(label.expected)}});
  }
  return table;
}

/// Each cell is shaded by its share of the row.
Table confusion_table(const LabelMeasures& measures) {
  Table table;
  for (const LabelScore& label : measures.labels) {
    table.columns.push_back(fitted(visible(label.label), 12));
    table.rows.push_back(fitted(visible(label.label), 40));
  }
  for (size_t row = 0; row < measures.labels.size(); ++row) {
    std::vector<Cell> cells;
    for (const int64_t count : measures.confusion[row]) {
      const auto whole = static_cast<double>(std::max<int64_t>(measures.labels[row].expected, 1));
      cells.push_back({.text = count == 0 ? "·" : counted(count),
                       .share = count == 0 ? -1 : static_cast<double>(count) / whole,
                       .faint = count == 0});
    }
    table.cells.push_back(std::move(cells));
  }
  return table;
}

Json to_json(const Likelihood& likelihood) {
  return {{"loss", likelihood.loss()}, {"perplexity", likelihood.perplexity()}, {"tokens", likelihood.tokens}};
}

}  // namespace

void print_measures(const Terminal& terminal, const TextMetrics& metrics) {
  print_line(terminal, "BLEU", fixed(metrics.bleu.score, 2), details(metrics.bleu));
  print_line(terminal, "", "", metrics.bleu_signature);
  print_line(terminal, "chrF2", fixed(metrics.chrf, 2), metrics.chrf_signature);
  print_line(terminal, "chrF2++", fixed(metrics.chrf_words, 2), metrics.chrf_words_signature);
}

void print_measures(const Terminal& terminal, const TranslationMeasures& measures, int64_t beam) {
  print_measures(terminal, measures.metrics);
  print_loss(terminal, measures.likelihood);
  if (measures.left_out > 0) {
    terminal.out << counted(measures.left_out, "pair", "pairs") << " without a target skipped\n";
  }
  terminal.out << counted(measures.metrics.sentences, "sentence", "sentences") << " translated in "
               << fixed(measures.seconds, 1) << " s, "
               << (beam > 1 ? "beam " + std::to_string(beam) : std::string("greedy")) << ": "
               << rate(measures.written, measures.seconds) << "\n";
}

void print_measures(const Terminal& terminal, const LanguageMeasures& measures) {
  print_loss(terminal, measures.likelihood);
  if (measures.words > 0) {
    print_line(terminal, "", metric(measures.word_perplexity()), "per word, " + counted(measures.words) + " words");
  }
  print_line(terminal, "bits", metric(measures.bits_per_character()),
             "per character, " + counted(measures.characters) + " characters");
  print_line(terminal, "", metric(measures.bits_per_byte()), "per byte, " + counted(measures.bytes) + " bytes");
  if (measures.unknown > 0) {
    terminal.out << counted(measures.unknown, "token is", "tokens are")
                 << " not in the vocabulary; the true perplexity is higher\n";
  }
  terminal.out << "Read in " << fixed(measures.seconds, 1)
               << " s: " << rate(measures.likelihood.tokens, measures.seconds) << '\n';
}

void print_measures(const Terminal& terminal, const LabelMeasures& measures) {
  print_line(terminal, "accuracy", fixed(100 * measures.accuracy(), 2) + " %",
             counted(measures.right) + " of " + counted(measures.texts) + " texts");
  print_line(terminal, "macro F1", fixed(100 * measures.macro_f1(), 2), "mean over the labels");
  if (measures.texts > measures.unknown) print_line(terminal, "loss", metric(measures.loss), "nats per text");
  if (measures.unknown > 0) {
    terminal.out << counted(measures.unknown, "text has", "texts have")
                 << " a label the model does not know: counted as wrong\n";
  }
  terminal.out << '\n';
  print_table(terminal, scores_table(measures), 0);
  if (measures.labels.size() <= kLabelsInTable) {
    terminal.out << "\nConfusion matrix: rows are expected labels, columns are predicted labels\n";
    print_table(terminal, confusion_table(measures), 0);
  }
  terminal.out << "\nRead in " << fixed(measures.seconds, 1) << " s: " << rate(measures.tokens, measures.seconds)
               << '\n';
}

Json to_json(const TextMetrics& metrics) {
  const BleuStatistics& counts = metrics.bleu.statistics;
  return {{"sentences", metrics.sentences},
          {"bleu", metrics.bleu.score},
          {"bleu_signature", metrics.bleu_signature},
          {"bleu_precisions", metrics.bleu.precisions},
          {"bleu_brevity_penalty", metrics.bleu.brevity_penalty},
          {"hypothesis_length", counts.hypothesis_length},
          {"reference_length", counts.reference_length},
          {"chrf", metrics.chrf},
          {"chrf_signature", metrics.chrf_signature},
          {"chrf++", metrics.chrf_words},
          {"chrf++_signature", metrics.chrf_words_signature}};
}

Json to_json(const TranslationMeasures& measures) {
  Json json{{"kind", "translation"}};
  json.update(to_json(measures.metrics));
  json.update(to_json(measures.likelihood));
  json["left_out"] = measures.left_out;
  json["written_tokens"] = measures.written;
  json["seconds"] = measures.seconds;
  json["tokens_per_second"] = static_cast<double>(measures.written) / std::max(measures.seconds, 1e-9);
  json["cut_sources"] = measures.cut_sources;
  return json;
}

Json to_json(const LanguageMeasures& measures) {
  Json json{{"kind", "language"}};
  json.update(to_json(measures.likelihood));
  json["word_perplexity"] = measures.words > 0 ? Json(measures.word_perplexity()) : Json();
  json["bits_per_character"] = measures.bits_per_character();
  json["bits_per_byte"] = measures.bits_per_byte();
  json["texts"] = measures.texts;
  json["words"] = measures.words > 0 ? Json(measures.words) : Json();
  json["characters"] = measures.characters;
  json["bytes"] = measures.bytes;
  json["unknown_tokens"] = measures.unknown;
  json["seconds"] = measures.seconds;
  json["tokens_per_second"] = static_cast<double>(measures.likelihood.tokens) / std::max(measures.seconds, 1e-9);
  return json;
}

Json to_json(const LabelMeasures& measures) {
  Json labels = Json::array();
  for (const LabelScore& label : measures.labels) {
    labels.push_back({{"label", label.label},
                      {"precision", label.precision()},
                      {"recall", label.recall()},
                      {"f1", label.f1()},
                      {"texts", label.expected}});
  }
  return {{"kind", "classification"},
          {"texts", measures.texts},
          {"accuracy", measures.accuracy()},
          {"macro_f1", measures.macro_f1()},
          {"loss", measures.texts > measures.unknown ? Json(measures.loss) : Json()},
          {"unknown_labels", measures.unknown},
          {"labels", std::move(labels)},
          {"confusion", measures.confusion},
          {"seconds", measures.seconds},
          {"tokens_per_second", static_cast<double>(measures.tokens) / std::max(measures.seconds, 1e-9)}};
}

}  // namespace attend::cli
