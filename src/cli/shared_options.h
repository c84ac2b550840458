#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "attend/generate/sampling.h"
#include "attend/ops/precision.h"
#include "attend/ops/weight_format.h"
#include "cli/command_line.h"
#include "cli/text_files.h"

// Options that several commands share, each declared once.
namespace attend::cli {

/// --threads.
void add_threads(Command& command, int64_t& threads);
/// Applies --threads; 0 leaves the default.
void use_threads(int64_t threads);
/// --json with a description of what it prints.
void add_json(Command& command, bool& json, const std::string& help);
/// --quiet.
void add_quiet(Command& command, bool& quiet);
/// --lossy.
void add_lossy(Command& command, bool& lossy);
/// --by-line.
void add_by_line(Command& command, bool& by_line);
/// --beam; `fallback` describes the default in its help.
void add_beam(Command& command, std::optional<int64_t>& beam, const std::string& fallback);
/// --length-penalty.
void add_length_penalty(Command& command, std::optional<double>& penalty);
/// --task.
void add_task(Command& command, std::string& task);
/// --no-cache.
void add_no_cache(Command& command, bool& no_cache);

/// How a model's weights are held.
struct WeightOptions {
  std::string dtype, quantize;  ///< "": bf16 matrices as in the files, everything else as f32
  /// Throws a usage error where the two exclude each other.
  WeightFormat format() const;
  /// Whether bf16 files are held as bf16.
  bool keeps_bf16() const;
  /// What products are computed in: bf16 if it is asked for and the processor has instructions for it.
  Precision precision() const;
};

struct CommonOptions {
  std::string model, output;
  TextInputOptions input;
  WeightOptions weights;
  int64_t threads = 0;
  bool json = false, bench = false;
};

/// --dtype, --quantize.
void add_weight_options(Command& command, WeightOptions& options);
/// MODEL, --dtype, --quantize, --threads, --json.
void add_model_options(Command& command, CommonOptions& options);
/// TEXT…, -i, -o, --lossy, --unbuffered, --bench.
void add_text_options(Command& command, CommonOptions& options);
/// --temperature, --top-k, --top-p, --min-p, --repetition-penalty, --seed. True if one of them was given, but the seed.
std::function<bool()> add_sampling_options(Command& command, SamplingOptions& options);

}  // namespace attend::cli
