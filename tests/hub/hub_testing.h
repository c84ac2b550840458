#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "attend/hub/hub.h"
#include "attend/io/safetensors.h"
#include "attend/tensor/creation.h"
#include "testing/gradients.h"
#include "testing/temporary_folder.h"

namespace attend::testing {

/// The folder of a small model of each architecture, one of the repository's reference cases.
inline std::string golden_model(const std::string& name) {
  return std::string(ATTEND_SOURCE_DIR) + "/tests/golden/cases/models/" + name;
}

/// Small random weights, determined by the seed.
inline Tensor random_weights(const Shape& shape, uint64_t seed) { return normal(shape, 0, 0.3, {seed, 7}); }

/// The files of a Hugging Face folder in memory. A test changes them, then calls save().
struct HubFiles {
  nlohmann::json config;
  std::map<std::string, Tensor> tensors;

  void save(const std::string& folder) const {
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/config.json") << config.dump();
    const std::vector<NamedTensor> list(tensors.begin(), tensors.end());
    write_safetensors(folder + "/model.safetensors", list, {{"format", "pt"}});
  }
};

/// Reads the files of a folder.
inline HubFiles hub_files(const std::string& folder) {
  HubFiles files{.config = nlohmann::json::parse(std::ifstream(folder + "/config.json")), .tensors = {}};
  const SafetensorsFile weights = SafetensorsFile::open(folder + "/model.safetensors");
  for (const TensorInfo& info : weights.tensors()) files.tensors[info.name] = weights.tensor(info.name).clone();
  return files;
}

/// A GPT-2 of width 8 with two layers.
inline HubFiles tiny_gpt2() {
  HubFiles files;
  files.config = {{"model_type", "gpt2"}, {"architectures", {"GPT2LMHeadModel"}},
                  {"vocab_size", 11},     {"n_embd", 8},
                  {"n_head", 2},          {"n_layer", 2},
                  {"n_positions", 16}};
  uint64_t seed = 1;
  const auto add = [&](const std::string& name, const Shape& shape) {
    files.tensors["transformer." + name] = random_weights(shape, seed++);
  };
  add("wte.weight", {11, 8});
  add("wpe.weight", {16, 8});
  for (const std::string layer : {"h.0.", "h.1."}) {
    for (const std::string norm : {"ln_1", "ln_2"})
      add(layer + norm + ".weight", {8}), add(layer + norm + ".bias", {8});
    add(layer + "attn.c_attn.weight", {8, 24}), add(layer + "attn.c_attn.bias", {24});
    add(layer + "attn.c_proj.weight", {8, 8}), add(layer + "attn.c_proj.bias", {8});
    add(layer + "mlp.c_fc.weight", {8, 32}), add(layer + "mlp.c_fc.bias", {32});
    add(layer + "mlp.c_proj.weight", {32, 8}), add(layer + "mlp.c_proj.bias", {8});
  }
  add("ln_f.weight", {8});
  add("ln_f.bias", {8});
  return files;
}

/// The error of load_hub_model for a folder, without the folder's name.
inline std::string complaint_about(const std::string& folder) {
  try {
    load_hub_model(folder);
    return "nothing";
  } catch (const FormatError& error) {
    const std::string what = error.what();
    EXPECT_EQ(what.find('\n'), std::string::npos) << what;
    if (!what.starts_with(folder)) return "no folder named: " + what;
    return what.substr(folder.size() + (what[folder.size()] == '/' ? 1 : 2));  // "FOLDER/file: …" or "FOLDER: …"
  }
}

}  // namespace attend::testing
