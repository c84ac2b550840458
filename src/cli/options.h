#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

namespace attend::cli {

/// Accepts whole numbers from `smallest` to `largest` and says so otherwise.
inline CLI::Validator whole_number(uint64_t smallest, uint64_t largest) {
  const auto check = [=](std::string& text) -> std::string {
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool whole = error == std::errc() && end == text.data() + text.size();
    if (whole && value >= smallest && value <= largest) return "";
    return "expected a whole number from " + std::to_string(smallest) + " to " + std::to_string(largest) + ", got '" +
           text + "'";
  };
  return CLI::Validator(check, "");
}

/// Accepts numbers from `smallest` to `largest` and says so otherwise.
inline CLI::Validator number_between(double smallest, double largest) {
  const auto check = [=](std::string& text) -> std::string {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool is_number = error == std::errc() && end == text.data() + text.size();
    if (is_number && value >= smallest && value <= largest) return "";
    std::ostringstream message;
    message << "expected a number from " << smallest << " to " << largest << ", got '" << text << "'";
    return message.str();
  };
  return CLI::Validator(check, "");
}

/// Accepts one of these words and lists them otherwise.
inline CLI::Validator one_of(const std::vector<std::string>& words) {
  const auto check = [words](std::string& text) -> std::string {
    std::string list;
    for (size_t i = 0; i < words.size(); ++i) {
      if (words[i] == text) return "";
      list += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + words[i];
    }
    return "expected " + list + ", got '" + text + "'";
  };
  return CLI::Validator(check, "");
}

}  // namespace attend::cli
