// Shared by all architectures: reading files, names and settings.

#include "attend/models/gpt.h"
#include "attend/models/registry.h"
#include "hub/architecture.h"
#include "hub_testing.h"

namespace attend {
namespace {

using testing::complaint_about;
using testing::expect_error;
using testing::HubFiles;
using testing::TemporaryFolder;
using testing::tiny_gpt2;

Tensor ids_of(const std::vector<int64_t>& ids) { return tensor<int64_t>(ids, {1, std::ssize(ids)}); }

std::vector<float> logits_of(const Model& model) {
  const auto& language = dynamic_cast<const LanguageModel&>(model);
  return language.head().logits(language.hidden(ids_of({1, 5, 2, 10}))).to_vector();
}

TEST(Hub, RecognisesItsFolders) {
  const TemporaryFolder folder;
  EXPECT_FALSE(is_hub_folder(folder.path()));
  std::ofstream(folder.file("config.json")) << R"({"architecture": "gpt", "vocab_size": 8})";
  EXPECT_FALSE(is_hub_folder(folder.path()));
  std::ofstream(folder.file("config.json")) << R"({"architectures": ["X"]})";
  EXPECT_TRUE(is_hub_folder(folder.path()));
  std::ofstream(folder.file("config.json")) << "{";
  EXPECT_FALSE(is_hub_folder(folder.path()));
}

TEST(Hub, NamesUnknownArchitectures) {
  const TemporaryFolder folder;
  HubFiles files = tiny_gpt2();
  files.config["model_type"] = "mamba";
  files.config["architectures"] = {"MambaForCausalLM"};
  files.save(folder.path());
  const std::string said = complaint_about(folder.path());
  EXPECT_TRUE(
      said.starts_with("config.json: architecture 'MambaForCausalLM' (model_type 'mamba') is not "
                       "supported; supported model types: gpt2"))
      << said;
}

TEST(Hub, SavedInOurFormatItIsTheSame) {
  const TemporaryFolder folder;
  tiny_gpt2().save(folder.file("theirs"));
  const LoadedModel theirs = load_any_model(folder.file("theirs"));
  EXPECT_EQ(theirs.kind, "gpt2");
  save_model(*theirs.model, folder.file("ours"));
  const LoadedModel ours = load_any_model(folder.file("ours"));
  EXPECT_EQ(ours.kind, "attend");
  EXPECT_EQ(logits_of(*theirs.model), logits_of(*ours.model));
}

TEST(Hub, ShardsAreOneModel) {
  const TemporaryFolder folder;
  const HubFiles files = tiny_gpt2();
  files.save(folder.file("whole"));
  files.save(folder.file("shards"));
  std::filesystem::remove(folder.file("shards/model.safetensors"));
  std::vector<NamedTensor> parts[2];
  nlohmann::json index{{"metadata", {{"total_size", 1}}}, {"weight_map", nlohmann::json::object()}};
  size_t count = 0;
  for (const auto& [name, tensor] : files.tensors) {
    const size_t part = count++ % 2;
    parts[part].emplace_back(name, tensor);
    index["weight_map"][name] = "model-0000" + std::to_string(part + 1) + "-of-00002.safetensors";
  }
  std::ofstream(folder.file("shards/model.safetensors.index.json")) << index.dump();
  write_safetensors(folder.file("shards/model-00001-of-00002.safetensors"), parts[0]);
  EXPECT_EQ(complaint_about(folder.file("shards")),
            "model.safetensors.index.json: the shard 'model-00002-of-00002.safetensors' is missing");
  write_safetensors(folder.file("shards/model-00002-of-00002.safetensors"), parts[1]);
  EXPECT_EQ(logits_of(*load_hub_model(folder.file("whole")).model),
            logits_of(*load_hub_model(folder.file("shards")).model));

  parts[1].push_back(parts[0][0]);
  write_safetensors(folder.file("shards/model-00002-of-00002.safetensors"), parts[1]);
  EXPECT_EQ(complaint_about(folder.file("shards")),
            "model-00002-of-00002.safetensors: tensor '" + parts[0][0].first + "' is also in another shard");
  index["weight_map"][parts[0][0].first] = "../model.safetensors";
  std::ofstream(folder.file("shards/model.safetensors.index.json")) << index.dump();
  EXPECT_EQ(complaint_about(folder.file("shards")),
            "model.safetensors.index.json: '../model.safetensors' is not the name of a file in the folder");
}

TEST(Hub, MissingAndMisshapenTensors) {
  const TemporaryFolder folder;
  HubFiles files = tiny_gpt2();
  files.tensors.erase("transformer.h.1.mlp.c_fc.bias");
  files.save(folder.path());
  EXPECT_EQ(complaint_about(folder.path()), "model.safetensors: tensor 'transformer.h.1.mlp.c_fc.bias' is missing");
  files = tiny_gpt2();
  files.tensors["transformer.h.1.attn.c_attn.weight"] = zeros({8, 20});
  files.save(folder.path());
  EXPECT_EQ(complaint_about(folder.path()),
            "model.safetensors: tensor 'transformer.h.1.attn.c_attn.weight' has shape [8, 20], but config.json "
            "describes [8, 24]");
  files = tiny_gpt2();
  files.tensors["transformer.ln_f.weight"] = tensor<int64_t>({1, 1, 1, 1, 1, 1, 1, 1}, {8});
  files.save(folder.path());
  EXPECT_EQ(complaint_about(folder.path()),
            "model.safetensors: tensor 'transformer.ln_f.weight' is i64, expected f32, f16 or bf16");
}

TEST(Hub, ListsUnusedWeights) {
  const TemporaryFolder folder;
  HubFiles files = tiny_gpt2();
  files.tensors["transformer.h.0.attn.bias"] = ones({1, 1, 16, 16});  // a mask that old files contain
  files.tensors["adapter.weight"] = ones({3});
  files.save(folder.path());
  EXPECT_EQ(load_hub_model(folder.path(), {.allow_unused = true}).unused, std::vector<std::string>{"adapter.weight"});
}

TEST(Hub, PrefixIsOptional) {
  const TemporaryFolder folder;
  HubFiles files = tiny_gpt2();
  files.save(folder.file("a"));
  std::map<std::string, Tensor> bare;
  for (const auto& [name, tensor] : files.tensors) bare[name.substr(std::string("transformer.").size())] = tensor;
  files.tensors = bare;
  files.save(folder.file("b"));
  EXPECT_EQ(logits_of(*load_hub_model(folder.file("a")).model), logits_of(*load_hub_model(folder.file("b")).model));
}

TEST(Hub, HalfPrecisionIsConverted) {
  const TemporaryFolder folder;
  for (const DType dtype : {DType::f16, DType::bf16}) {
    HubFiles files = tiny_gpt2(), rounded = tiny_gpt2();
    for (auto& [name, tensor] : files.tensors) tensor = to(tensor, dtype);
    for (auto& [name, tensor] : rounded.tensors) tensor = to(to(tensor, dtype), DType::f32);
    files.save(folder.file("half"));
    rounded.save(folder.file("single"));
    EXPECT_EQ(logits_of(*load_hub_model(folder.file("half")).model),
              logits_of(*load_hub_model(folder.file("single")).model))
        << dtype;
  }
}

TEST(Hub, Bf16MayStayBf16) {
  const TemporaryFolder folder;
  HubFiles files = tiny_gpt2();
  for (auto& [name, tensor] : files.tensors) tensor = to(tensor, DType::bf16);
  files.save(folder.path());
  const auto kept = load_hub_model(folder.path(), {.keep_bf16 = true}).model;
  const auto& gpt = dynamic_cast<const Gpt&>(*kept);
  EXPECT_EQ(gpt.embedding.weight.dtype(), DType::bf16);
  EXPECT_TRUE(gpt.embedding.weight.storage()->is_read_only()) << "as in the file";
  EXPECT_EQ(gpt.layers.layers[0].feed_forward.up.weight.dtype(), DType::bf16) << "transposed";
  EXPECT_EQ(gpt.layers.layers[0].attention_norm.bias.dtype(), DType::f32);
  EXPECT_EQ(logits_of(*kept), logits_of(*load_hub_model(folder.path()).model)) << "to the bit";
}

TEST(Hub, WeightsAreMappedWithoutCopies) {
  const TemporaryFolder folder;
  tiny_gpt2().save(folder.path());
  const auto model = load_hub_model(folder.path()).model;
  const auto& gpt = dynamic_cast<const Gpt&>(*model);
  EXPECT_TRUE(gpt.embedding.weight.storage()->is_read_only()) << "as in the file";
  EXPECT_FALSE(gpt.layers.layers[0].feed_forward.up.weight.storage()->is_read_only()) << "transposed";
}

TEST(Hub, RefusesPickles) {
  const TemporaryFolder folder;
  tiny_gpt2().save(folder.path());
  std::filesystem::rename(folder.file("model.safetensors"), folder.file("pytorch_model.bin"));
  EXPECT_EQ(complaint_about(folder.path()),
            "pytorch_model.bin is a pickle; reading it can run arbitrary code; if you trust it, convert it with "
            "transformers: from_pretrained(FOLDER).save_pretrained(FOLDER)");
  std::filesystem::remove(folder.file("pytorch_model.bin"));
  EXPECT_EQ(complaint_about(folder.path()),
            "expected model.safetensors or model.safetensors.index.json, found neither");
}

TEST(Hub, LinksOutOfTheFolderAreNotFollowed) {
  const TemporaryFolder folder;
  tiny_gpt2().save(folder.file("a/snapshots/1"));
  std::filesystem::create_directories(folder.file("a/blobs"));
  std::filesystem::rename(folder.file("a/snapshots/1/model.safetensors"), folder.file("a/blobs/x"));
  std::filesystem::create_symlink("../../blobs/x", folder.file("a/snapshots/1/model.safetensors"));
  EXPECT_EQ(complaint_about(folder.file("a/snapshots/1")), "nothing") << "the layout of the hub's cache";
  std::filesystem::rename(folder.file("a/blobs"), folder.file("a/elsewhere"));
  std::filesystem::remove(folder.file("a/snapshots/1/model.safetensors"));
  std::filesystem::create_symlink("../../elsewhere/x", folder.file("a/snapshots/1/model.safetensors"));
  EXPECT_EQ(complaint_about(folder.file("a/snapshots/1")),
            "model.safetensors: links that lead out of the folder are not followed");
}

TEST(Hub, TheReversedNameMapGivesTheOriginalTensors) {
  const TemporaryFolder folder;
  const HubFiles files = tiny_gpt2();
  files.save(folder.path());
  const hub::HubFolder from{folder.path(), hub::HubConfig::read(folder.path(), "config.json"),
                            hub::HubWeights::open(folder.path())};
  const auto model = load_hub_model(folder.path()).model;
  const auto written = hub::weights_of(*model, hub::gpt2().names(from, *model));
  EXPECT_EQ(written.size(), files.tensors.size());
  for (const auto& [name, tensor] : written) {
    ASSERT_TRUE(files.tensors.contains(name)) << name;
    EXPECT_EQ(tensor.shape(), files.tensors.at(name).shape()) << name;
    EXPECT_EQ(tensor.to_vector(), files.tensors.at(name).to_vector()) << name;
  }
}

}  // namespace
}  // namespace attend
