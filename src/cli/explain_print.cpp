#include <algorithm>
#include <cmath>
#include <cstdio>

#include "attend/text/segment.h"
#include "cli/explain_print.h"
#include "cli/explain_words.h"

namespace attend::cli {
namespace {

constexpr int kLongestLabel = 12;
constexpr int64_t kLongestSum = 8;  // terms of a worked example

/// Rounds halves away from zero, as on paper. Vectors with one decimal often produce halves, and the order of
/// summation, which differs between processors, decides on which side of the half the last bit falls.
std::string rounded(double value, int decimals = 2) {
  if (std::isinf(value)) return value < 0 ? "−∞" : "∞";
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", decimals, value + std::copysign(1e-9, value));
  const std::string result = text;
  return result.find_first_not_of("-0.") == std::string::npos && result[0] == '-' ? result.substr(1) : result;
}

/// A number as a factor or term: negative numbers in brackets.
std::string term(double value) { return value < 0 ? "(" + rounded(value) + ")" : rounded(value); }

/// Prints the steps: knows which tokens are shown, their labels, and the number of the current step.
class Story {
 public:
  Story(const Terminal& terminal, const ExplainSteps& steps, const PrintOptions& options)
      : terminal_(terminal), steps_(steps), options_(options), words_(explain_words(options.language)) {
    const auto length = static_cast<int64_t>(steps.tokens.size());
    shown_ = std::min(length, options.limit);
    for (int64_t i = 0; i < shown_; ++i) {
      labels_.push_back(std::to_string(i + 1) + " " +
                        fitted(visible(steps.tokens[static_cast<size_t>(i)]), kLongestLabel));
    }
    row_ = std::min<int64_t>(1, shown_ - 1);
  }

  void tell() {
    tokens();
    vectors();
    projections();
    for (size_t h = 0; h < steps_.heads.size(); ++h) head(h);
    joining();
  }

 private:
  const ExplainOptions& options() const { return steps_.options; }
  bool several() const { return steps_.heads.size() > 1; }
  int64_t head_dim() const { return options().dim / options().heads; }
  const std::string& label(int64_t i) const { return labels_[static_cast<size_t>(i)]; }

  void heading(const std::string& title, const std::string& formula = "") {
    terminal_.out << '\n' << bold(terminal_, std::to_string(++step_) + ". " + title);
    if (!formula.empty()) terminal_.out << "   " << formula;
    terminal_.out << '\n';
  }
  void say(const std::string& text) const { print_paragraph(terminal_, text); }
  /// An explanation that is printed only for the first head.
  void teach(const std::string& text) const {
    if (!taught_) say(text);
  }

  void tokens();
  void vectors();
  void projections();
  void head(size_t index);
  void dot_products(const HeadSteps& head, const std::string& of);
  void scaling(const HeadSteps& head, const std::string& of);
  void mask(const HeadSteps& head, const std::string& of);
  void softmax_step(const HeadSteps& head, const std::string& of);
  void context(const HeadSteps& head, const std::string& of);
  void joining();

  /// One row per token, one column per feature.
  void print_vectors(const Tensor& values, int decimals = 2) const;
  void print_matrix(const std::string& name, const Tensor& matrix) const;
  /// Queries down, keys across.
  void print_pairs(const Tensor& values, bool shade = false) const;

  const Terminal& terminal_;
  const ExplainSteps& steps_;
  const PrintOptions& options_;
  const ExplainWords& words_;
  int64_t shown_ = 0, row_ = 0;  // row_: the query of the worked examples, with the first key
  std::vector<std::string> labels_;
  int64_t first_feature_ = 0;  // of the vectors shown: each head sees a range of features
  int step_ = 0;
  bool taught_ = false;
};

/// values[rows, cols], indexed by row and column.
struct Grid {
  explicit Grid(const Tensor& tensor) : columns(tensor.dim(1)), values(tensor.to_vector<double>()) {}
  double operator()(int64_t row, int64_t column) const { return values[static_cast<size_t>(row * columns + column)]; }
  int64_t columns;
  std::vector<double> values;
};

/// [first + 1], [first + 2], …
std::vector<std::string> feature_names(int64_t count, int64_t first = 0) {
  std::vector<std::string> names;
  for (int64_t i = first + 1; i <= first + count; ++i) names.push_back("[" + std::to_string(i) + "]");
  return names;
}

void Story::print_vectors(const Tensor& values, int decimals) const {
  const Grid grid(values);
  Table table{feature_names(grid.columns, first_feature_), labels_, {}};
  for (int64_t i = 0; i < shown_; ++i) {
    auto& row = table.cells.emplace_back();
    for (int64_t c = 0; c < grid.columns; ++c) row.push_back({rounded(grid(i, c), decimals)});
  }
  print_table(terminal_, table);
}

void Story::print_matrix(const std::string& name, const Tensor& matrix) const {
  const Grid grid(matrix);
  Table table{feature_names(grid.columns), {}, {}};
  for (int64_t i = 0; i < matrix.dim(0); ++i) {
    table.rows.push_back(i == 0 ? name : "");
    auto& row = table.cells.emplace_back();
    for (int64_t c = 0; c < grid.columns; ++c) row.push_back({rounded(grid(i, c), 1)});
  }
  print_table(terminal_, table);
}

void Story::print_pairs(const Tensor& values, bool shade) const {
  const Grid grid(values);
  Table table{labels_, labels_, {}};
  for (int64_t i = 0; i < shown_; ++i) {
    auto& row = table.cells.emplace_back();
    for (int64_t j = 0; j < shown_; ++j) {
      const bool hidden = options().causal && j > i && (shade || std::isinf(grid(i, j)));
      row.push_back({rounded(grid(i, j)), shade && !hidden ? grid(i, j) : -1, hidden});
    }
  }
  print_table(terminal_, table);
}

void Story::tokens() {
  terminal_.out << bold(terminal_, words_.title) << fitted(visible(options_.text), 60) << '\n';
  const size_t count = steps_.tokens.size();
  heading(words_.tokens);
  say(count == 1 ? words_.one_token : filled(words_.split, {std::to_string(count)}));
  std::string list;
  for (const std::string& text : labels_) {
    std::string glued = text;
    std::ranges::replace(glued, ' ', ':');
    list += glued + "   ";
  }
  print_paragraph(terminal_, list);
  if (shown_ < static_cast<int64_t>(count)) say(filled(words_.cut, {std::to_string(shown_)}));
}

void Story::vectors() {
  heading(words_.vectors, "x_i");
  say(filled(words_.vectors_text, {std::to_string(options().dim)}));
  print_vectors(steps_.embeddings, 1);
  if (!options().positions) return;
  heading(words_.positions, "x_i = token_i + position_i");
  say(words_.positions_text);
  print_vectors(steps_.x);
}

void Story::projections() {
  if (!options().trainable) {
    heading(words_.projections, "q_i = k_i = v_i = x_i");
    return say(words_.projections_text);
  }
  heading(words_.projections, "q = x·Wq   k = x·Wk   v = x·Wv");
  say(words_.matrices_text);
  print_matrix("Wq", steps_.query_matrix);
  print_matrix("Wk", steps_.key_matrix);
  print_matrix("Wv", steps_.value_matrix);
}

void Story::head(size_t index) {
  const HeadSteps& head = steps_.heads[index];
  const std::string number = std::to_string(index + 1);
  const std::string of = several() ? filled(words_.of_head, {number}) : "";
  if (several()) {
    first_feature_ = static_cast<int64_t>(index) * head_dim();
    terminal_.out << '\n' << bold(terminal_, filled(words_.head, {number})) << '\n';
    say(filled(words_.head_text, {std::to_string(first_feature_ + 1), std::to_string(first_feature_ + head_dim())}));
  }
  if (options().trainable) {
    const std::pair<const char*, const Tensor&> views[]{{"q", head.queries}, {"k", head.keys}, {"v", head.values}};
    for (const auto& [name, values] : views) {
      terminal_.out << "   " << name << '\n';
      print_vectors(values);
    }
  }
  dot_products(head, of);
  scaling(head, of);
  mask(head, of);
  softmax_step(head, of);
  context(head, of);
  first_feature_ = 0;
  taught_ = true;
}

void Story::dot_products(const HeadSteps& head, const std::string& of) {
  heading(words_.dots + of, "score_ij = q_i · k_j");
  teach(words_.dots_text);
  print_pairs(head.dots);
  if (head_dim() > kLongestSum) return;
  const Grid q(head.queries), k(head.keys), dots(head.dots);
  std::string sum;
  for (int64_t c = 0; c < head_dim(); ++c) sum += (c ? " + " : "") + term(q(row_, c)) + "×" + term(k(0, c));
  say(filled(words_.dots_example, {label(row_), label(0), sum + " = " + rounded(dots(row_, 0))}));
}

void Story::scaling(const HeadSteps& head, const std::string& of) {
  const std::string d = std::to_string(head_dim()), root = rounded(1 / steps_.scale);
  heading(words_.scaling + of, filled(words_.scaling_formula, {d}));
  teach(filled(words_.scaling_text, {d, root}));
  print_pairs(head.scaled);
  const Grid dots(head.dots), scaled(head.scaled);
  say(filled(words_.example, {rounded(dots(row_, 0)) + " / " + root + " = " + rounded(scaled(row_, 0))}));
}

void Story::mask(const HeadSteps& head, const std::string& of) {
  if (!options().causal) {
    heading(words_.no_mask + of);
    return teach(words_.no_mask_text);
  }
  heading(words_.mask + of, words_.mask_formula);
  teach(words_.mask_text);
  print_pairs(head.masked);
}

void Story::softmax_step(const HeadSteps& head, const std::string& of) {
  heading(words_.softmax + of, "w_ij = e^score_ij / Σ_k e^score_ik");
  teach(words_.softmax_text);
  print_pairs(head.weights, true);
  const Grid masked(head.masked), weights(head.weights);
  std::string sum;
  const int64_t last = options().causal ? row_ + 1 : static_cast<int64_t>(steps_.tokens.size());
  if (last > kLongestSum) return;
  for (int64_t j = 0; j < last; ++j) sum += (j ? " + e^" : "e^") + term(masked(row_, j));
  say(filled(words_.example, {"e^" + term(masked(row_, 0)) + " / (" + sum + ") = " + rounded(weights(row_, 0))}));
}

void Story::context(const HeadSteps& head, const std::string& of) {
  heading(words_.context + of, "c_i = Σ_j w_ij · v_j");
  teach(words_.context_text);
  print_vectors(head.context);
  const Grid weights(head.weights), values(head.values), result(head.context);
  const int64_t last = options().causal ? row_ + 1 : static_cast<int64_t>(steps_.tokens.size());
  if (last > kLongestSum) return;
  std::string sum;
  for (int64_t j = 0; j < last; ++j) sum += (j ? " + " : "") + rounded(weights(row_, j)) + "×" + term(values(j, 0));
  say(filled(words_.context_example, {label(row_), sum + " = " + rounded(result(row_, 0))}));
}

void Story::joining() {
  if (!several()) return;
  terminal_.out << '\n' << bold(terminal_, words_.all_heads) << '\n';
  heading(words_.joining, words_.joining_formula);
  say(words_.joining_text);
  print_vectors(steps_.joined);
  if (!steps_.output_matrix) return;
  heading(words_.output, "y = c·Wo");
  say(words_.output_text);
  print_matrix("Wo", steps_.output_matrix);
  print_vectors(steps_.output);
}

}  // namespace

void print_steps(const Terminal& terminal, const ExplainSteps& steps, const PrintOptions& options) {
  Story(terminal, steps, options).tell();
}

}  // namespace attend::cli
