#pragma once

#include <string>

namespace attend::golden {

/// Whether the file has reference scores of BLEU and chrF: metrics.json, or golden.json beside outputs of newstest2017.
bool is_metrics_file(const std::string& path);

/// Empty if all scores match, otherwise the first mismatch.
std::string check_metrics_file(const std::string& path);

}  // namespace attend::golden
