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

/// Where a command computes.
struct ComputeOptions {
  std::string device = "auto";
  int64_t threads = 0;  ///< 0: all cores
  bool fast = false;    ///< without batch invariance
};
/// --device, --threads.
void add_compute_options(Command& command, ComputeOptions& options);
/// --fast.
void add_fast(Command& command, ComputeOptions& options);
/// Applies --threads and --fast, and returns the device. `auto` prints one line on standard error if it has found a
/// GPU, or a GPU that cannot be used; none on a machine without a GPU.
Device use(const ComputeOptions& options);
/// The device of --device. Throws UsageError if there is no device of this name.
Device device_of(const ComputeOptions& options);
/// --json; `help` describes its output.
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
/// The cache of keys and values in generation.
struct CacheOptions {
  bool is_off = false;
  std::string type;  ///< "": the default
  /// The type of the cache; empty: the default. Throws a usage error if there is no cache.
  std::optional<DType> dtype() const;
};
/// --no-cache, --cache.
void add_cache_options(Command& command, CacheOptions& options);
/// --cache alone.
void add_cache_type(Command& command, CacheOptions& options);
/// Guesses of the next tokens in generation.
struct DraftOptions {
  std::optional<int64_t> most;
  /// Maximum number of guesses. Throws a usage error if the option has no effect.
  int64_t tokens(Device device, const CacheOptions& cache = {}) const;
};
/// --draft.
void add_draft(Command& command, DraftOptions& options);
/// --whole-text.
void add_whole_text(Command& command, bool& whole_text);
/// --batch; its help shows the current value of `tokens` as the default.
void add_batch(Command& command, int64_t& tokens);
/// --seed of training.
void add_training_seed(Command& command, int64_t& seed);
/// --preset.
Option* add_preset(Command& command, std::string& preset);
/// --tokenizer: the kind to train, or a file or folder to load.
Option* add_tokenizer(Command& command, std::string& tokenizer);
/// --vocabulary.
void add_vocabulary(Command& command, int64_t& vocabulary);
/// --lowercase.
void add_lowercase(Command& command, bool& lowercase);
/// The argument MODEL.
void add_model(Command& command, std::string& model);

/// The format of a model's weights in memory.
struct WeightOptions {
  std::string dtype, quantize;  ///< "": bf16 matrices stay bf16, all other tensors become f32
  bool packs = false;           ///< set by commands that answer many requests at once
  /// Throws a usage error if the two options cannot be combined.
  WeightFormat format() const;
  /// Whether matrices stored as bf16 stay bf16 in memory.
  bool keeps_bf16() const;
  /// Precision of matrix products: bf16 if requested and supported by the device.
  Precision precision(Device device) const;
};

struct CommonOptions {
  std::string model, output;
  TextInputOptions input;
  WeightOptions weights;
  ComputeOptions compute;
  bool json = false, bench = false;
};

/// --dtype, --quantize.
void add_weight_options(Command& command, WeightOptions& options);
/// MODEL, --dtype, --quantize, --device, --threads, --fast, --json.
void add_model_options(Command& command, CommonOptions& options);
/// TEXT…, -i, -o, --lossy, --unbuffered, --bench.
void add_text_options(Command& command, CommonOptions& options);
/// --temperature, --top-k, --top-p, --min-p, --repetition-penalty, --seed. The returned function tells whether any of
/// them except --seed was given.
std::function<bool()> add_sampling_options(Command& command, SamplingOptions& options);

}  // namespace attend::cli
