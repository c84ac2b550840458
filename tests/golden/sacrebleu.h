#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "attend/text/bleu.h"

// Scores from sacreBLEU's own tests, and comparisons that throw FormatError.
namespace attend::golden {

/// Checks every section of golden.json. Systems whose output files are not in the folder are skipped.
void check_sacrebleu(const nlohmann::json& file, const std::string& folder);

/// Options from sacreBLEU's names.
BleuOptions bleu_options(const nlohmann::json& options);

void expect_near(const std::string& what, double ours, double expected, double tolerance = 1e-6);
void expect_near(const std::string& what, const std::vector<double>& ours, const std::vector<double>& expected,
                 double tolerance = 1e-6);
void expect_equal(const std::string& what, int64_t ours, int64_t expected);

}  // namespace attend::golden
