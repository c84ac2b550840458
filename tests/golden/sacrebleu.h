#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "attend/text/bleu.h"

// Scores out of sacreBLEU's own tests, and comparisons that throw FormatError.
namespace attend::golden {

/// Every section of its golden.json; outputs of systems whose files are not in the folder are left out.
void check_sacrebleu(const nlohmann::json& file, const std::string& folder);

/// sacreBLEU's names of options.
BleuOptions bleu_options(const nlohmann::json& options);

void expect_near(const std::string& what, double ours, double expected, double tolerance = 1e-6);
void expect_near(const std::string& what, const std::vector<double>& ours, const std::vector<double>& expected,
                 double tolerance = 1e-6);
void expect_equal(const std::string& what, int64_t ours, int64_t expected);

}  // namespace attend::golden
