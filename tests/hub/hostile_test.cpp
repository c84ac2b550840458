// Untrusted folders: whatever they contain, they load or give one clear line of error.

#include <sys/stat.h>

#include "attend/base/error.h"
#include "llama_reference.h"

namespace attend {
namespace {

using nlohmann::json;
using testing::complaint_about;
using testing::HubFiles;
using testing::TemporaryFolder;
using testing::tiny_gpt2;
using testing::tiny_llama;

std::string said_about(HubFiles files, const json& change) {
  const TemporaryFolder folder;
  for (const auto& [key, value] : change.items()) files.config[key] = value;
  files.save(folder.path());
  return complaint_about(folder.path());
}

TEST(HostileFolder, AbsurdSizes) {
  for (const char* key : {"n_embd", "n_head", "n_layer", "n_positions", "vocab_size"}) {
    for (const json& value : {json(0), json(-1), json(1e300), json(9007199254740993), json(2.5), json("12"), json({1}),
                              json(json::value_t::object), json(18446744073709551615u), json(true)}) {
      const std::string said = said_about(tiny_gpt2(), {{key, value}});
      EXPECT_TRUE(said.starts_with("config.json: '" + std::string(key) + "' must be a whole number from "))
          << key << " " << value << ": " << said;
    }
  }
  // Within all limits, but larger than the files: nothing of that size is ever allocated.
  for (const json& change : {json{{"n_layer", 1000}}, json{{"n_embd", 1 << 20}}, json{{"vocab_size", 1 << 24}},
                             json{{"n_positions", 1 << 24}}, json{{"n_inner", 1 << 20}},
                             json{{"n_layer", 1000}, {"n_embd", 1 << 20}, {"n_head", 1 << 20}, {"n_inner", 1 << 20}}}) {
    const std::string said = said_about(tiny_gpt2(), change);
    EXPECT_TRUE(said.starts_with("model.safetensors: tensor ")) << change << ": " << said;
  }
}

TEST(HostileFolder, AbsurdOptions) {
  for (const json& change :
       {json{{"rope_theta", 0}},
        json{{"rope_theta", -5}},
        json{{"rope_theta", "x"}},
        json{{"rms_norm_eps", -1}},
        json{{"rope_scaling", 7}},
        json{{"rope_scaling", {{"type", 3}}}},
        json{{"rope_parameters", "x"}},
        json{{"rope_scaling", {{"type", "linear"}, {"factor", 0}}}},
        json{{"rope_scaling", {{"type", "llama3"}, {"factor", 2}, {"low_freq_factor", 4}, {"high_freq_factor", 1}}}},
        json{{"partial_rotary_factor", 0}},
        json{{"tie_word_embeddings", "yes"}},
        json{{"head_dim", 0}},
        json{{"num_key_value_heads", 0}},
        json{{"hidden_act", 5}},
        json{{"architectures", "Llama"}},
        json{{"layer_types", {1, 2}}, {"model_type", "qwen2"}},
        json{{"layer_types", {"full_attention"}}, {"model_type", "qwen3"}},
        json{{"eos_token_id", "x"}},
        json{{"eos_token_id", -7}},
        json{{"num_beams", -1}}}) {
    EXPECT_TRUE(said_about(tiny_llama(), change).starts_with("config.json: "))
        << change << said_about(tiny_llama(), change);
  }
}

TEST(HostileFolder, BrokenJson) {
  const TemporaryFolder folder;
  tiny_gpt2().save(folder.path());
  std::ofstream(folder.file("generation_config.json")) << std::string(100000, '[');
  EXPECT_EQ(complaint_about(folder.path()), "generation_config.json: the JSON is nested too deep");
  std::ofstream(folder.file("generation_config.json")) << "[]";
  EXPECT_EQ(complaint_about(folder.path()), "generation_config.json: expected a JSON object");
  std::filesystem::remove(folder.file("generation_config.json"));
  std::filesystem::remove(folder.file("model.safetensors"));
  for (const char* index : {"", "{}", "[1]", R"({"weight_map": []})", R"({"weight_map": {"a": 1}})"}) {
    std::ofstream(folder.file("model.safetensors.index.json")) << index;
    EXPECT_TRUE(complaint_about(folder.path()).starts_with("model.safetensors.index.json: ")) << index;
  }
  for (const char* name : {"", ".", "..", "/etc/passwd", "a/../../b"}) {
    std::ofstream(folder.file("model.safetensors.index.json")) << json{{"weight_map", {{"a", name}}}};
    EXPECT_EQ(complaint_about(folder.path()),
              "model.safetensors.index.json: '" + std::string(name) + "' is not the name of a file in the folder");
  }
}

TEST(HostileFolder, DanglingLinks) {
  const TemporaryFolder folder;
  tiny_gpt2().save(folder.path());
  std::filesystem::create_symlink("tokenizer.json", folder.file("tokenizer.json"));
  EXPECT_TRUE(complaint_about(folder.path()).starts_with("tokenizer.json: broken link: "));
  std::filesystem::remove(folder.file("tokenizer.json"));
  std::filesystem::create_symlink("/etc", folder.file("more"));
  EXPECT_EQ(complaint_about(folder.path()), "more: links that lead out of the folder are not followed");
}

TEST(HostileFolder, PipesDoNotBlock) {
  for (const char* name : {"config.json", "generation_config.json", "model.safetensors"}) {
    const TemporaryFolder folder;
    tiny_gpt2().save(folder.path());
    std::filesystem::remove(folder.file(name));
    ASSERT_EQ(mkfifo(folder.file(name).c_str(), 0600), 0);
    try {
      load_any_model(folder.path());
      ADD_FAILURE() << name;
    } catch (const FormatError& error) {
      EXPECT_NE(std::string(error.what()).find(std::string(name) + ": expected a regular file"), std::string::npos)
          << error.what();
    }
  }
}

/// Puts values that often break readers into every key of every config.
TEST(HostileFolder, EveryValueOfEveryConfig) {
  const TemporaryFolder folder;
  const std::vector<json> values{nullptr,
                                 true,
                                 -1,
                                 0,
                                 1,
                                 3,
                                 1e9,
                                 1e30,
                                 -0.5,
                                 "",
                                 "silu",
                                 "\xff",
                                 json::array(),
                                 json::object(),
                                 json::array({1, "x"})};
  std::vector<HubFiles> all{tiny_gpt2()};
  for (const char* type : {"llama", "mistral", "qwen2", "qwen3"}) {
    all.push_back(tiny_llama({{"model_type", type},
                              {"sliding_window", 4},
                              {"use_sliding_window", true},
                              {"layer_types", {"full_attention", "sliding_attention"}},
                              {"rope_scaling", {{"type", "linear"}, {"factor", 2}}},
                              {"eos_token_id", 2},
                              {"id2label", {{"0", "a"}}}}));
  }
  for (const char* name : {"bart", "bert", "distilbert", "marian", "t5", "vit"}) {
    all.push_back(testing::hub_files(testing::golden_model(name)));
  }
  for (const HubFiles& files : all) {
    files.save(folder.path());
    for (const auto& [key, old] : files.config.items()) {
      for (const json& value : values) {
        json config = files.config;
        config[key] = value;
        std::ofstream(folder.file("config.json")) << config.dump(-1, ' ', false, json::error_handler_t::ignore);
        complaint_about(folder.path());  // fails the test for anything but a FormatError of one line
      }
    }
  }
}

}  // namespace
}  // namespace attend
