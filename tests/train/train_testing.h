#pragma once

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "attend/base/random.h"
#include "attend/io/safetensors.h"
#include "attend/train/job.h"
#include "testing/process.h"

namespace attend::testing {

/// A pseudo-random number below `limit`, the same on every machine.
inline int64_t below(int64_t limit, uint64_t index, uint64_t stream = 0) {
  return static_cast<int64_t>(philox(7, index, stream)[0] % static_cast<uint64_t>(limit));
}

/// Lines of digits, a tab, and the same digits reversed.
inline std::string reversed_digits(int64_t lines, int64_t shortest = 2, int64_t longest = 5) {
  std::string text;
  for (int64_t line = 0; line < lines; ++line) {
    const int64_t length = shortest + below(longest - shortest + 1, static_cast<uint64_t>(line), 1);
    std::string digits;
    for (int64_t i = 0; i < length; ++i) {
      digits += static_cast<char>('0' + below(6, static_cast<uint64_t>(line * 16 + i), 2));
    }
    text += digits + '\t' + std::string(digits.rbegin(), digits.rend()) + '\n';
  }
  return text;
}

/// Lines of label, tab, text. The letters of the text determine the label.
inline std::string labelled_letters(int64_t lines) {
  std::string text;
  for (int64_t line = 0; line < lines; ++line) {
    const bool early = below(2, static_cast<uint64_t>(line), 3) == 0;
    text += early ? "early\t" : "late\t";
    for (int64_t i = 0; i < 6; ++i) {
      text += static_cast<char>((early ? 'a' : 'p') + below(5, static_cast<uint64_t>(line * 16 + i), 4));
    }
    text += '\n';
  }
  return text;
}

/// One line, repeated: a few letters determine the next.
inline std::string periodic_text(int64_t times) {
  std::string text;
  for (int64_t i = 0; i < times; ++i) text += "abcdefgh ij\n";
  return text;
}

inline std::string save(const TemporaryFolder& folder, const std::string& name, const std::string& content) {
  std::ofstream(folder.file(name), std::ios::binary) << content;
  return folder.file(name);
}

/// A job for a model of width 16 with one layer, trained on characters.
inline TrainingJob tiny_job(const std::string& architecture, CorpusKind kind, const std::string& file) {
  TrainingJob job{.architecture = architecture, .model = {{"dim", "16"}, {"dropout", "0"}}};
  if (architecture.starts_with("rnn")) {
    job.model.insert({{"state_dim", "16"}});
  } else if (architecture == "transformer") {
    job.model.insert({{"heads", "2"}, {"ffn_dim", "32"}, {"encoder_layers", "1"}, {"decoder_layers", "1"}});
  } else {
    job.model.insert({{"heads", "2"}, {"ffn_dim", "32"}, {"layers", "1"}, {"context", "16"}});
  }
  job.data = {.corpus = {.kind = kind, .files = {file}}, .tokenizer = "char"};
  job.training = default_training(architecture);
  job.training.steps = 12;
  job.training.batch_tokens = 128;
  job.training.schedule = ScheduleKind::constant;
  job.training.lr = 3e-3;
  job.training.warmup = 0;
  job.training.samples = 1;
  return job;
}

inline std::vector<nlohmann::json> journal(const std::string& model) {
  std::vector<nlohmann::json> lines;
  std::ifstream in(model + "/training.jsonl");
  for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

/// The tensors and metadata of a safetensors file, without times.
inline std::string without_times(const std::string& path) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  std::string text;
  for (const auto& [key, value] : file.metadata()) {
    if (key.find("seconds") == std::string::npos) text += key + '=' + value + '\n';
  }
  for (const TensorInfo& info : file.tensors()) text += info.name + '\n';
  const size_t data = file.tensors().empty() ? 0 : file.tensors().back().end;
  const std::string bytes = file_text(path);
  return text + bytes.substr(bytes.size() - data);
}

/// All files that training writes to a model folder, without times. Two runs are equal if these are.
inline std::map<std::string, std::string> trained_files(const std::string& model) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(model)) {
    const std::string path = entry.path().string(), name = path.substr(model.size() + 1);
    if (entry.is_regular_file()) files[name] = file_text(path);
  }
  if (files.contains("checkpoint.safetensors")) {
    files["checkpoint.safetensors"] = without_times(model + "/checkpoint.safetensors");
  }
  std::string& log = files["training.jsonl"];
  log.clear();
  for (nlohmann::json line : journal(model)) {
    line.erase("seconds");
    line.erase("tokens_per_second");
    log += line.dump() + '\n';
  }
  return files;
}

}  // namespace attend::testing
