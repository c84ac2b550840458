// ViT against naive loops in f64; preprocessing of images; sentence-transformers folders.

#include "attend/generate/classify.h"
#include "attend/generate/embed.h"
#include "attend/hub/sentence_transformers.h"
#include "attend/models/vision.h"
#include "attend/ops/arithmetic.h"
#include "attend/ops/shape.h"
#include "hub/hub_files.h"
#include "naive.h"

namespace attend {
namespace {

using testing::complaint_about;
using testing::HubFiles;
using testing::TemporaryFolder;
using testing::vit_files;

constexpr int64_t kDim = 8, kSize = 6, kPatch = 3;  // of vit_files

naive::Matrix naive_vit(const HubFiles& files, const std::vector<double>& pixels) {
  const naive::Weights w(files.tensors);
  const auto kernel = w.vector("vit.embeddings.patch_embeddings.projection.weight"),
             bias = w.vector("vit.embeddings.patch_embeddings.projection.bias"),
             first = w.vector("vit.embeddings.cls_token");
  const auto places = w.matrix("vit.embeddings.position_embeddings");
  naive::Matrix x{first};
  for (size_t down = 0; down < 2; ++down) {
    for (size_t across = 0; across < 2; ++across) {
      naive::Row token = bias;
      for (size_t o = 0; o < kDim; ++o) {
        for (size_t c = 0; c < 3; ++c) {
          for (size_t i = 0; i < kPatch; ++i) {
            for (size_t j = 0; j < kPatch; ++j) {
              token[o] += kernel[((o * 3 + c) * kPatch + i) * kPatch + j] *
                          pixels[(c * kSize + down * kPatch + i) * kSize + across * kPatch + j];
            }
          }
        }
      }
      x.push_back(token);
    }
  }
  x = naive::add(x, places);
  const std::string layer = "vit.encoder.layer.0.";
  const auto in = naive::layer_norm(w, layer + "layernorm_before", x, 1e-12);
  const auto attended = naive::attention(naive::linear(w, layer + "attention.attention.query", in),
                                         naive::linear(w, layer + "attention.attention.key", in),
                                         naive::linear(w, layer + "attention.attention.value", in), {.heads = 2});
  x = naive::add(x, naive::linear(w, layer + "attention.output.dense", attended));
  const auto up = naive::map(
      naive::linear(w, layer + "intermediate.dense", naive::layer_norm(w, layer + "layernorm_after", x, 1e-12)),
      naive::gelu);
  x = naive::layer_norm(w, "vit.layernorm", naive::add(x, naive::linear(w, layer + "output.dense", up)), 1e-12);
  return naive::linear(w, "classifier", {x[0]});
}

TEST(Vit, ClassifiesPixels) {
  const HubFiles files = vit_files();
  const TemporaryFolder folder;
  files.save(folder.path());
  const LoadedModel loaded = load_hub_model(folder.path());
  EXPECT_TRUE(loaded.unused.empty());
  const auto& model = dynamic_cast<const ImageModel&>(*loaded.model);
  EXPECT_EQ(model.labels(), (std::vector<std::string>{"cat", "狗"}));
  EXPECT_EQ(model.context(), 5);
  const Tensor pixels = testing::random_f32({1, 3, kSize, kSize}, 5);
  AttentionRecorder seen;
  testing::expect_close(model.classify(pixels, {.observer = &seen}), naive_vit(files, pixels.to_vector<double>())[0],
                        2e-5);
  ASSERT_EQ(seen.traces.size(), 1u);
  EXPECT_EQ(seen.traces[0].path, "stack.layers.0.attention");
  EXPECT_EQ(seen.traces[0].weights().values.shape(), (Shape{1, 2, 5, 5}));
  testing::expect_error<ShapeError>(
      [&] {
        model.classify(zeros({1, 3, 6, 7}));
      },
      "vision: expected pixels of shape [1, 3, 6, 6], got [1, 3, 6, 7]");
}

TEST(Vit, ReadsGreyImagesAndMayHaveNoBiases) {
  HubFiles files = vit_files(), grey = files;
  grey.config["num_channels"] = 1;
  grey.config["qkv_bias"] = false;
  const std::string kernel = "vit.embeddings.patch_embeddings.projection.weight";
  for (const char* part : {"query", "key", "value"}) {  // the equivalent colour network has biases of 0
    const std::string bias = "vit.encoder.layer.0.attention.attention." + std::string(part) + ".bias";
    files.tensors[bias] = zeros({kDim});
    grey.tensors.erase(bias);
  }
  const Tensor third = testing::random_f32({kDim, 1, kPatch, kPatch}, 9);
  files.tensors[kernel] = concat({third, third, third}, 1);
  grey.tensors[kernel] = third * 3.0;
  const TemporaryFolder folder, grey_folder;
  files.save(folder.path());
  grey.save(grey_folder.path());
  const LoadedModel coloured = load_hub_model(folder.path()), loaded = load_hub_model(grey_folder.path());
  EXPECT_TRUE(loaded.unused.empty());
  const auto& model = dynamic_cast<const ImageModel&>(*loaded.model);
  EXPECT_EQ(model.channels(), 1);
  Image image{.width = kSize, .height = kSize, .pixels = {}};
  for (int i = 0; i < kSize * kSize; ++i) image.pixels.insert(image.pixels.end(), 3, static_cast<uint8_t>(7 * i));
  const ImagePreparation one = read_image_preparation(grey_folder.path(), kSize, 1);
  EXPECT_EQ(one.pixels(image).shape(), (Shape{1, 1, kSize, kSize}));
  const auto expected =
      classify(dynamic_cast<const ImageModel&>(*coloured.model), read_image_preparation(folder.path(), kSize), image);
  const auto got = classify(model, one, image);
  for (size_t i = 0; i < 2; ++i) EXPECT_NEAR(got.scores[i], expected.scores[i], 1e-5);

  const Image colours{.width = 1, .height = 1, .pixels = {255, 0, 10}};  // 0.299 · 255 + 0.114 · 10 = 77.4
  ImagePreparation plain{.is_resized = false, .factor = 1, .mean = {0}, .deviation = {1}};
  EXPECT_EQ(plain.pixels(colours).to_vector()[0], 77);
}

TEST(Vit, RefusesWhatItDoesNotSupport) {
  const auto said = [](const std::string& key, const nlohmann::json& value) {
    HubFiles files = vit_files();
    files.config[key] = value;
    const TemporaryFolder folder;
    files.save(folder.path());
    return complaint_about(folder.path());
  };
  EXPECT_NE(said("num_channels", 1).find("patch_embeddings.projection.weight"), std::string::npos);
  EXPECT_NE(said("patch_size", 4).find("image must be a multiple of patch, got 6 and 4"), std::string::npos);
  EXPECT_NE(said("image_size", 9).find("position_embeddings"), std::string::npos);
  EXPECT_NE(said("image_size", 0).find("image_size"), std::string::npos);
  EXPECT_NE(said("image_size", 1048575).find("too many patches"), std::string::npos);
}

TEST(Pictures, ArePreparedAsTheFolderSays) {
  const TemporaryFolder folder;
  const auto read = [&](const std::string& text) {
    std::ofstream(folder.file("preprocessor_config.json")) << text;
    return read_image_preparation(folder.path(), 4);
  };
  const auto said = [&](const std::string& text) -> std::string {
    try {
      read(text);
    } catch (const FormatError& error) {
      return std::string(error.what()).substr(folder.path().size() + 1);
    }
    return "";
  };
  const Image image{.width = 8, .height = 6, .pixels = std::vector<uint8_t>(8 * 6 * 3, 51)};
  const ImagePreparation usual = read_image_preparation(folder.path(), 4);
  EXPECT_EQ(usual.pixels(image).shape(), (Shape{1, 3, 4, 4}));
  EXPECT_NEAR(usual.pixels(image).to_vector()[0], (51.0 / 255 - 0.5) / 0.5, 1e-6);

  const ImagePreparation other = read(R"({"size": {"shortest_edge": 5}, "do_center_crop": true, "crop_size": 4,
    "resample": 3, "image_mean": [0.1, 0.2, 0.3], "image_std": [1, 2, 4], "rescale_factor": 0.01})");
  EXPECT_EQ(other.shortest_edge, 5);
  EXPECT_EQ(other.resampling, Resampling::bicubic);
  const auto values = other.pixels(image).to_vector();
  EXPECT_NEAR(values[0], 0.51 - 0.1, 1e-6);
  EXPECT_NEAR(values[47], (0.51 - 0.3) / 4, 1e-6);
  EXPECT_EQ(read(R"({"size": 4, "do_normalize": false, "do_rescale": false})").pixels(image).to_vector()[0], 51);

  const std::string wrong =
      "preprocessor_config.json: images are not resized to the 4 × 4 pixels that the model expects";
  EXPECT_EQ(said(R"({"size": {"height": 5, "width": 4}})"), wrong);
  EXPECT_EQ(said(R"({"size": {"shortest_edge": 4}})"), wrong);
  EXPECT_EQ(said(R"({"do_resize": false})"), wrong);
  EXPECT_EQ(said(R"({"image_std": [1, 0, 1]})"), "preprocessor_config.json: 'image_std' must be greater than 0");
  EXPECT_EQ(said(R"({"image_mean": [1, 2]})"), "preprocessor_config.json: 'image_mean' must be three numbers");
  EXPECT_EQ(read(R"({"image_mean": 0.25})").mean, std::vector<double>(3, 0.25));
  EXPECT_NE(said(R"({"size": 100000})").find("'size'"), std::string::npos);
  EXPECT_NE(said(R"({"resample": 9})").find("'resample'"), std::string::npos);
}

TEST(SentenceTransformers, FoldersDefineThePooling) {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& name, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(folder.file(name)).parent_path());
    std::ofstream(folder.file(name)) << text;
  };
  const auto modules = [&](const std::string& more) {
    write("modules.json",
          R"([{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"})" + more + "]");
  };
  const std::string pooling =
      R"(,{"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"})";
  const std::string normal =
      R"(,{"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"})";
  EXPECT_FALSE(is_sentence_folder(folder.path()));
  modules(pooling + normal);
  write("1_Pooling/config.json", R"({"pooling_mode_mean_tokens": true, "pooling_mode_cls_token": true})");
  write("sentence_bert_config.json", R"({"max_seq_length": 7, "do_lower_case": false})");
  write("config_sentence_transformers.json", R"({"prompts": {"q": "query: "}, "default_prompt_name": "q"})");
  EXPECT_TRUE(is_sentence_folder(folder.path()));
  const SentenceFolder read = read_sentence_folder(folder.path());
  EXPECT_EQ(read.model, folder.path());
  EXPECT_EQ(read.settings.pooling, (std::vector{TextPooling::first, TextPooling::mean}));
  EXPECT_TRUE(read.settings.is_normalized);
  EXPECT_EQ(read.settings.longest, 7);
  EXPECT_EQ(read.prompt, "query: ");

  modules(pooling);
  write("1_Pooling/config.json", R"({"pooling_mode": "lasttoken"})");
  EXPECT_EQ(read_sentence_folder(folder.path()).settings.pooling, std::vector{TextPooling::last});
  const auto said = [&]() -> std::string {
    try {
      read_sentence_folder(folder.path());
    } catch (const FormatError& error) {
      return std::string(error.what()).substr(folder.path().size() + 1);
    }
    return "";
  };
  write("1_Pooling/config.json", R"({"word_embedding_dimension": 8, "pooling_mode": "cls", "pooling_mode_new": true})");
  EXPECT_EQ(said(),
            "1_Pooling/config.json: 'pooling_mode_new': true is an unknown setting: results without it may be wrong; "
            "delete it from the file if it does not change the computation");
  write("1_Pooling/config.json", R"({"pooling_mode_mean_tokens": false})");
  EXPECT_EQ(said(), "1_Pooling/config.json: no pooling mode is enabled");
  modules(R"(,{"idx": 1, "name": "1", "path": "2_Dense", "type": "sentence_transformers.models.Dense"})");
  EXPECT_EQ(said(), "modules.json: module type 'Dense' is not supported; expected Transformer, Pooling or Normalize");
  modules(R"(,{"idx": 1, "name": "1", "path": "../x", "type": "sentence_transformers.models.Pooling"})");
  EXPECT_EQ(said(), "modules.json: the path '../x' leads out of the folder");
  write("modules.json", "{}");
  EXPECT_EQ(said(), "modules.json: expected a list of modules");
}

TEST(TextPooling, EachMethod) {
  const std::vector<float> tokens{1, -2, 3, 4, 5, 0};  // three tokens of two numbers
  const auto pooled = [&](TextPooling pooling) { return pooled_text(tokens, 2, {.pooling = {pooling}}); };
  EXPECT_EQ(pooled(TextPooling::first), (std::vector<float>{1, -2}));
  EXPECT_EQ(pooled(TextPooling::last), (std::vector<float>{5, 0}));
  EXPECT_EQ(pooled(TextPooling::max), (std::vector<float>{5, 4}));
  EXPECT_FLOAT_EQ(pooled(TextPooling::mean)[0], 3);
  EXPECT_FLOAT_EQ(pooled(TextPooling::mean_sqrt)[0], 9 / std::sqrt(3.0f));
  EXPECT_FLOAT_EQ(pooled(TextPooling::weighted)[0], (1 + 2 * 3 + 3 * 5) / 6.0f);
  const auto both = pooled_text(tokens, 2, {.pooling = {TextPooling::first, TextPooling::last}, .is_normalized = true});
  EXPECT_EQ(both.size(), 4u);
  EXPECT_NEAR(both[0], 1 / std::sqrt(30.0), 1e-6);
  EXPECT_THROW(pooled_text({}, 2, {}), ShapeError);
}

}  // namespace
}  // namespace attend
