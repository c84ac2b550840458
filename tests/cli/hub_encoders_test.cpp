// The commands on Hugging Face text encoders and image models.
#include <gtest/gtest.h>
#include <png.h>

#include <set>

#include "attend/text/tokenizer.h"
#include "hub/hub_files.h"
#include "testing/process.h"

namespace attend {
namespace {

using testing::Finished;
using testing::lines_of;
using testing::TemporaryFolder;
using Json = nlohmann::json;
using Words = std::vector<std::string>;

class HubEncoders : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TemporaryFolder>();
    const std::vector<std::string> corpus{"the quick brown fox jumps over the lazy dog.", "今天天气很好，我们去公园。"};
    size_t next = 0;
    const auto tokenizer = train_tokenizer(
        [&]() -> std::optional<std::string> {
          return next < corpus.size() ? std::optional(corpus[next++]) : std::nullopt;
        },
        {.kind = TokenizerKind::characters, .vocabulary = 200, .min_count = 1});
    testing::bert_classifier(tokenizer->size(), 64).save(path("bert"));
    tokenizer->save(path("bert"));
    testing::vit_files().save(path("vit"));
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static std::string path(const std::string& name) { return folder_->file(name); }
  static Finished attend(Words words) {
    words.insert(words.begin(), ATTEND_BINARY_DIR "/attend");
    return testing::run(words, {});
  }
  static std::string out(const Words& words) {
    const Finished result = attend(words);
    EXPECT_EQ(result.code, 0) << result.err;
    return result.out;
  }
  static std::string fails(const Words& words, int code = 1) {
    const Finished result = attend(words);
    EXPECT_EQ(result.code, code) << result.out;
    EXPECT_EQ(lines_of(result.err).size(), 1u) << result.err;
    return result.err;
  }
  static void write(const std::string& name, const std::string& content) {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    std::ofstream(path(name), std::ios::binary) << content;
  }

  static std::unique_ptr<TemporaryFolder> folder_;
};
std::unique_ptr<TemporaryFolder> HubEncoders::folder_;

TEST_F(HubEncoders, Embed) {
  const auto lines = lines_of(out({"embed", path("bert"), "the fox", "今天天气很好", ""}));
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(std::ranges::count(lines[0], '\t'), 7);
  EXPECT_EQ(lines_of(out({"embed", path("bert"), "the fox"}))[0], lines[0]);  // independent of the batch
  const Json json = Json::parse(out({"embed", path("bert"), "the fox", "--json", "--normalize"}));
  EXPECT_EQ(json["text"], "the fox");
  double squares = 0;
  for (const double value : json["vector"].get<std::vector<double>>()) squares += value * value;
  EXPECT_NEAR(squares, 1, 1e-5);
  EXPECT_NE(out({"embed", path("bert"), "the fox", "--pooling", "first"}), lines[0] + "\n");
  EXPECT_NE(fails({"embed", path("bert"), "x", "--pooling", "best"}, 2).find("--pooling"), std::string::npos);
}

TEST_F(HubEncoders, WeightFormatsReachEveryCommand) {
  for (const Words& words : {Words{"embed", path("bert"), "the fox"}, Words{"classify", path("bert"), "a", "--json"}}) {
    std::set<std::string> results{out(words)};
    for (const Words& format : {Words{"--dtype", "bf16"}, Words{"--quantize", "int8"}}) {
      Words all = words;
      all.insert(all.end(), format.begin(), format.end());
      results.insert(out(all));
    }
    EXPECT_EQ(results.size(), 3u) << words[0];
  }
}

/// To the last digit: without batch invariance, kernels compute a short text alone differently than in a batch.
TEST_F(HubEncoders, NumbersDoNotDependOnTheBatch) {
  std::string lines;
  for (int i = 1; i < 30; ++i)
    lines += std::string("the quick brown fox jumps over the lazy dog.").substr(0, 1 + i) + "\n";
  write("lines.txt", lines);
  const std::string together = out({"embed", path("bert"), "-i", path("lines.txt")});
  for (const char* tokens : {"1", "2", "50"}) {
    EXPECT_EQ(out({"embed", path("bert"), "-i", path("lines.txt"), "--batch", tokens}), together) << tokens;
  }
}

TEST_F(HubEncoders, EmbedWritesArraysAndSimilarities) {
  out({"embed", path("bert"), "the fox", "a dog", "-o", path("v.npy"), "--npy"});
  const std::string bytes = testing::file_text(path("v.npy"));
  EXPECT_TRUE(bytes.starts_with("\x93NUMPY"));
  EXPECT_NE(bytes.find("'shape': (2, 8)"), std::string::npos);
  EXPECT_EQ(bytes.size() % 64, 0u);  // 128 bytes of header here, and 2 · 8 numbers
  const auto lines = lines_of(out({"embed", path("bert"), "the fox", "the fox", "今天", "--similarity"}));
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_TRUE(lines[0].starts_with("1.0000\t1.0000\t"));
  EXPECT_TRUE(lines[2].ends_with("1.0000\t今天"));
  EXPECT_NE(fails({"embed", path("bert"), "x", "--npy"}, 2).find("--npy requires a file"), std::string::npos);
}

TEST_F(HubEncoders, EmbedFollowsTheSentenceTransformersConfig) {
  std::filesystem::copy(path("bert"), path("sentence"), std::filesystem::copy_options::recursive);
  write("sentence/modules.json", R"([{"idx": 0, "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    {"idx": 2, "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}])");
  write("sentence/1_Pooling/config.json", R"({"pooling_mode_cls_token": true})");
  EXPECT_EQ(out({"embed", path("sentence"), "the fox"}),
            out({"embed", path("bert"), "the fox", "--pooling", "first", "--normalize"}));
  write("sentence/sentence_bert_config.json", R"({"max_seq_length": 5})");
  const Finished cut = attend({"embed", path("sentence"), "the quick brown fox"});
  EXPECT_EQ(cut.code, 0);
  EXPECT_NE(cut.err.find("attend: truncated 1 line to the model's maximum of 5 tokens (line "), std::string::npos);
}

TEST_F(HubEncoders, Classify) {
  const auto lines = lines_of(out({"classify", path("bert"), "the fox", "", "今天"}));
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_TRUE(lines[0] == "no" || lines[0] == "是");
  EXPECT_EQ(lines[1], "");
  const auto probabilities = [&](const Words& more) {
    Words words{"classify", path("bert"), "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return Json::parse(out(words))["probabilities"]["no"].get<double>();
  };
  const double pair = probabilities({"--pairs", "the fox\tthe dog"});
  EXPECT_NE(pair, probabilities({"the foxthe dog"}));
  EXPECT_NE(pair, probabilities({"--pairs", "the dog\tthe fox"}));
  EXPECT_NE(fails({"classify", path("bert"), "--pairs", "the fox"}).find("a pair needs a tab"), std::string::npos);
}

TEST_F(HubEncoders, ClassifyPictures) {
  std::vector<uint8_t> pixels(20 * 10 * 3, 200);
  png_image image{};
  image.version = PNG_IMAGE_VERSION, image.width = 20, image.height = 10, image.format = PNG_FORMAT_RGB;
  ASSERT_TRUE(png_image_write_to_file(&image, path("a.png").c_str(), 0, pixels.data(), 0, nullptr));
  const std::string line = out({"classify", path("vit"), path("a.png")});
  EXPECT_TRUE(line == path("a.png") + "\tcat\n" || line == path("a.png") + "\t狗\n") << line;
  const Json json = Json::parse(out({"classify", path("vit"), path("a.png"), "--json"}));
  EXPECT_NEAR(json["probabilities"]["cat"].get<double>() + json["probabilities"]["狗"].get<double>(), 1, 1e-6);
  EXPECT_NE(Json::parse(out({"classify", path("vit"), path("a.png"), "--json", "--quantize", "int8"})), json);
  write("b.png", "no picture");
  EXPECT_EQ(fails({"classify", path("vit"), path("b.png")}),
            "attend: " + path("b.png") + ": expected a PNG or a JPEG\n");
  EXPECT_NE(fails({"embed", path("vit"), "text"}).find("an image classifier"), std::string::npos);
  EXPECT_NE(fails({"score", path("vit"), "text"}).find("attend classify"), std::string::npos);
  EXPECT_NE(out({"info", path("vit")}).find("vision"), std::string::npos);
}

TEST_F(HubEncoders, FineTuneAClassifier) {
  std::string data;
  for (int i = 0; i < 60; ++i) data += i % 2 == 0 ? "fox\tthe quick brown fox jumps\n" : "天气\t今天天气很好\n";
  write("train.tsv", data);
  const Finished trained = attend({"train", "encoder", path("train.tsv"), "--from", path("bert"), "-o", path("tuned"),
                                   "--steps", "40", "--lr", "0.01"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_EQ(out({"classify", path("tuned"), "the quick brown fox", "今天天气很好"}), "fox\n天气\n");
}

}  // namespace
}  // namespace attend
