#pragma once

#include <string>

namespace attend::golden {

/// Whether the file has reference scores of BLEU and chrF: metrics.json, or golden.json beside outputs of newstest2017.
bool is_metrics_file(const std::string& path);

/// Empty if all of its scores are ours too, else what is wrong with the first that is not.
std::string check_metrics_file(const std::string& path);

}  // namespace attend::golden
