#pragma once

#include <initializer_list>
#include <string>

namespace attend::cli {

/// The texts of `attend explain` in one language. {1}, {2}, … stand for numbers and names.
struct ExplainWords {
  const char *title, *tokens, *split, *one_token, *cut;
  const char *vectors, *vectors_text, *positions, *positions_text;
  const char *projections, *projections_text, *matrices_text;
  const char *of_head, *head, *head_text;
  const char *dots, *dots_text, *dots_example;
  const char *scaling, *scaling_formula, *scaling_text, *example;
  const char *no_mask, *no_mask_text, *mask, *mask_formula, *mask_text;
  const char *softmax, *softmax_text;
  const char *context, *context_text, *context_example;
  const char *all_heads, *joining, *joining_formula, *joining_text, *output, *output_text;
};

/// The texts in a language, "en" or "zh".
const ExplainWords& explain_words(const std::string& language);

/// "zh" if the locale in LC_ALL, LC_MESSAGES or LANG is Chinese, else "en".
std::string language_of_locale();

/// The text with {1}, {2}, … replaced by the parts.
std::string filled(std::string text, std::initializer_list<std::string> parts);

}  // namespace attend::cli
