#include "cli/shared_options.h"

#include <algorithm>

#include <iostream>

#include "attend/backend/devices.h"
#include "attend/base/threads.h"
#include "attend/generate/drafts.h"
#include "attend/models/generation_rules.h"
#include "cli/command_line.h"
#include "cli/processes.h"
#include "distributed/group.h"

namespace attend::cli {

void add_compute_options(Command& command, ComputeOptions& options) {
  command
      .add_option(
          "--device", options.device,
          "Device: cpu, cuda, cuda:N, or auto: the first GPU, or the CPU if there is none (default: auto); with "
          "mpirun, cuda is a GPU for each process")
      ->suggest({"auto", "cpu", "cuda"})
      ->type_name("NAME");
  command
      .add_option("--threads", options.threads,
                  "Number of CPU threads (default: all cores, divided among the processes of a host)")
      ->check(whole_number(1, 1024))
      ->type_name("N");
}

void add_fast(Command& command, ComputeOptions& options) {
  command.add_flag(
      "--fast", options.fast,
      "On a GPU, use faster kernels: the last digits of a result may depend on the other texts in a batch");
}

namespace {

int gpu_count() { return static_cast<int>(devices().size()) - 1; }

}  // namespace

Device device_of(const ComputeOptions& options) {
  try {
    Device device = parse_device(options.device);
    const distributed::Group& group = distributed::world();
    if (device != kCpu && options.device.find(':') == std::string::npos && group.size() > 1) {  // one GPU per process
      device.index = group.members()[static_cast<size_t>(group.rank())].local_rank % gpu_count();
    }
    return device;
  } catch (const ShapeError& error) {
    throw UsageError(error.what());
  }
}

Device use(const ComputeOptions& options) {
  if (options.threads > 0) set_threads(static_cast<int>(options.threads));
  const bool is_auto = options.device == "auto";
  const Device device = device_of(options);
  if (device == kCpu) keep_to_own_cores();
  if (device != kCpu) {  // a GPU that is busy is reported before any other work
    const DeviceInfo info = device_info(device);
    require<DeviceError>(info.problem.empty(), info.problem, "; --device cpu uses the processor");
    if (is_auto && distributed::world().rank() == 0)
      std::cerr << "Using " << info.name << " (" << device << "); --device cpu uses the processor\n";
  } else if (const std::string fault = is_auto ? cuda_fault() : ""; !fault.empty()) {
    std::cerr << "Using the CPU: " << fault << '\n';
  }
  if (options.fast && distributed::world().rank() == 0) {
    std::cerr << (device == kCpu ? "--fast changes nothing on the CPU\n"
                                 : "--fast: the last digits of a result may depend on the other texts in a batch\n");
  }
  set_batch_invariance(!options.fast);
  return device;
}

void add_json(Command& command, bool& json, const std::string& help) { command.add_flag("--json", json, help); }

void add_quiet(Command& command, bool& quiet) { command.add_flag("--quiet", quiet, "Print no progress"); }

void add_lossy(Command& command, bool& lossy) {
  command.add_flag("--lossy", lossy, "Replace invalid UTF-8 instead of stopping with an error");
}

void add_by_line(Command& command, bool& by_line) {
  command.add_flag("--by-line", by_line, "Plain text: treat each line as a separate text");
}

void add_beam(Command& command, std::optional<int64_t>& beam, const std::string& fallback) {
  command.add_option("--beam", beam, "Beam width (default: " + fallback + ")")
      ->check(whole_number(1, kMostBeam))
      ->type_name("N");
}

void add_length_penalty(Command& command, std::optional<double>& penalty) {
  command
      .add_option("--length-penalty", penalty,
                  "Exponent A of the score log p / length^A (default: the model's generation settings, else 1)")
      ->check(number_between(-10, 10))
      ->type_name("A");
}

void add_task(Command& command, std::string& task) {
  command.add_option("--task", task, "T5: task in the model's config, which sets the prefix and the search options")
      ->type_name("NAME");
}

std::optional<DType> CacheOptions::dtype() const {
  if (type.empty()) return std::nullopt;
  if (is_off) throw UsageError("--cache cannot be combined with --no-cache");
  return type == "bf16" ? DType::bf16 : DType::f32;
}

void add_cache_options(Command& command, CacheOptions& options) {
  command.add_flag("--no-cache", options.is_off,
                   "Recompute all keys and values for each token instead of caching them");
  add_cache_type(command, options);
}

void add_cache_type(Command& command, CacheOptions& options) {
  command
      .add_option(
          "--cache", options.type,
          "Type of cached keys and values, f32 or bf16: bf16 takes half the memory and is faster for long or "
          "many texts (default: bf16 with int8 weights, and if products round to bf16, as with --dtype bf16; else f32)")
      ->check(one_of({"f32", "bf16"}))
      ->type_name("NAME");
}

int64_t DraftOptions::tokens(Device device, const CacheOptions& cache) const {
  if (most.value_or(0) > 0) {
    if (device != kCpu) throw UsageError("--draft needs the CPU: on a GPU, no tokens are guessed");
    if (cache.is_off) throw UsageError("--draft cannot be combined with --no-cache");
  }
  return most.value_or(kDraftTokens);
}

void add_draft(Command& command, DraftOptions& options) {
  command
      .add_option("--draft", options.most,
                  "Maximum number of next tokens that are guessed from the text so far and checked in one step on the "
                  "CPU; the result stays the same (default: " +
                      std::to_string(kDraftTokens) + "; 0: none)")
      ->check(whole_number(0, kMostDraftTokens))
      ->type_name("N");
}

void add_whole_text(Command& command, bool& whole_text) {
  command.add_flag("--whole-text", whole_text, "Treat the whole input as one text");
}

void add_batch(Command& command, int64_t& tokens) {
  const std::string initial = std::to_string(tokens);
  command.add_option("--batch", tokens, "Batch size in tokens (default: " + initial + "; 1: one line at a time)")
      ->check(whole_number(1, 10000000))
      ->type_name("N");
}

void add_training_seed(Command& command, int64_t& seed) {
  command.add_option("--seed", seed, "Random seed (default: 1)")->check(whole_number(0, INT64_MAX))->type_name("N");
}

Option* add_preset(Command& command, std::string& preset) {
  return command.add_option("--preset", preset, "Model size: tiny, small or base (default: tiny)")->type_name("NAME");
}

Option* add_tokenizer(Command& command, std::string& tokenizer) {
  return command
      .add_option("--tokenizer", tokenizer,
                  "Tokenizer: bpe, char, word, wordpiece, sentencepiece, or a file or folder to load (default: bpe)")
      ->suggest({"bpe", "char", "word", "wordpiece", "sentencepiece"})
      ->type_name("NAME|FILE");
}

void add_vocabulary(Command& command, int64_t& vocabulary) {
  command.add_option("--vocabulary", vocabulary, "Maximum vocabulary size (default: 10000)")
      ->check(whole_number(16, 10000000))
      ->type_name("N");
}

void add_lowercase(Command& command, bool& lowercase) {
  command.add_flag("--lowercase", lowercase, "Convert all text to lower case");
}

void add_model(Command& command, std::string& model) {
  command.add_option("model", model, "Model folder")->required()->type_name("MODEL");
}

WeightFormat WeightOptions::format() const {
  const bool is_int8 = !quantize.empty() || dtype == "int8";
  if (is_int8 && dtype == "bf16") throw UsageError("--dtype bf16 cannot be combined with --quantize");
  if (is_int8) return WeightFormat::int8;
  return dtype == "bf16" ? WeightFormat::bf16 : WeightFormat::f32;
}

bool WeightOptions::keeps_bf16() const { return dtype != "f32"; }

Precision WeightOptions::precision(Device device) const {
  return dtype == "bf16" && has_bf16(device) ? Precision::bf16 : Precision::f32;
}

void add_weight_options(Command& command, WeightOptions& options) {
  command
      .add_option(
          "--dtype", options.dtype,
          "Weight type: f32, bf16 with bf16 products where supported, or int8 as --quantize int8 (default: the file's, "
          "with f32 products)")
      ->check(one_of({"f32", "bf16", "int8"}))
      ->type_name("NAME");
  command
      .add_option("--quantize", options.quantize,
                  "Weight quantization: int8, a quarter of the memory of f32 and faster (default: none)")
      ->check(one_of({"int8"}))
      ->type_name("NAME");
}

void add_model_options(Command& command, CommonOptions& options) {
  add_model(command, options.model);
  add_weight_options(command, options.weights);
  add_compute_options(command, options.compute);
  add_fast(command, options.compute);
  add_json(command, options.json, "Print one JSON object per line");
}

void add_text_options(Command& command, CommonOptions& options) {
  Option* texts = command.add_option("text", options.input.texts,
                                     "Texts to process (default: the lines of --input; -: standard input)");
  texts->type_name("TEXT");
  command.add_option("-i,--input", options.input.file, "Input file, may be gzip-compressed (default: standard input)")
      ->type_name("FILE")
      ->excludes(texts);
  command.add_option("-o,--output", options.output, "Output file (default: standard output)")->type_name("FILE");
  add_lossy(command, options.input.lossy);
  command.add_flag("--unbuffered", options.input.unbuffered,
                   "Process each line of standard input as soon as it arrives");
  command.add_flag("--bench", options.bench, "Print the speed in tokens per second at the end");
}

std::function<bool()> add_sampling_options(Command& command, SamplingOptions& options) {
  std::vector<Option*> all;
  all.push_back(command.add_option("--temperature", options.temperature,
                                   "Sampling temperature: below 1 safer, above 1 more varied (default: 1)"));
  all.back()->check(number_between(0, 1000))->type_name("N");
  all.push_back(command.add_option("--top-k", options.top_k, "Sample from the K likeliest tokens (default: 0, all)"));
  all.back()->check(whole_number(0, 1000000000))->type_name("K");
  all.push_back(command.add_option("--top-p", options.top_p,
                                   "Sample from the likeliest tokens with total probability P (default: 1, all)"));
  all.back()->check(number_between(0, 1))->type_name("P");
  all.push_back(command.add_option("--min-p", options.min_p,
                                   "Sample from tokens at least P times as likely as the likeliest (default: 0, all)"));
  all.back()->check(number_between(0, 1))->type_name("P");
  all.push_back(
      command.add_option("--repetition-penalty", options.repetition_penalty,
                         "Penalty on repeated tokens (default: the model's generation settings, else 1, off)"));
  all.back()->check(number_between(0.001, 1000))->type_name("N");
  command.add_option("--seed", options.seed, "Random seed for sampling (default: 0)")
      ->check(whole_number(0, UINT64_MAX))
      ->type_name("N");
  return [all] { return std::ranges::any_of(all, [](const Option* option) { return option->count() > 0; }); };
}

}  // namespace attend::cli
