#pragma once

#include "attend/io/json.h"
#include "attend/train/measure.h"
#include "cli/terminal.h"

// The results of `attend evaluate`, as text and as JSON.
namespace attend::cli {

void print_measures(const Terminal& terminal, const TextMetrics& metrics);
void print_measures(const Terminal& terminal, const TranslationMeasures& measures, int64_t beam);
void print_measures(const Terminal& terminal, const LanguageMeasures& measures);
void print_measures(const Terminal& terminal, const LabelMeasures& measures);

Json to_json(const TextMetrics& metrics);
Json to_json(const TranslationMeasures& measures);
Json to_json(const LanguageMeasures& measures);
Json to_json(const LabelMeasures& measures);

}  // namespace attend::cli
