#pragma once

#include <stdexcept>
#include <string>

namespace attend::golden {

/// A reference that cannot be checked, with the reason. It is reported, and neither passes nor fails.
struct Skipped : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// tokenizer_cases.json beside a tokenizer; golden.inp and golden.out beside one; NAME.golden.json beside NAME.model.
bool is_tokenizer_case(const std::string& path);

/// Empty if ids, tokens and decoded text of every case match, otherwise the mismatches.
std::string check_tokenizer(const std::string& path);

}  // namespace attend::golden
