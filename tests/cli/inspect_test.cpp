// Runs `attend inspect` and `attend view` on a model trained for two steps.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "attend/io/image.h"
#include "attend/io/safetensors.h"
#include "hub/hub_files.h"
#include "train_testing.h"

namespace attend {
namespace {

using testing::file_text;
using testing::Finished;
using testing::TemporaryFolder;
using Json = nlohmann::json;

Finished attend_command(std::vector<std::string> words, const testing::ProcessOptions& options = {}) {
  words.insert(words.begin(), ATTEND_BINARY_DIR "/attend");
  return testing::run(words, options);
}

/// A tiny translation model, trained once for all tests.
const std::string& model() {
  static const TemporaryFolder folder;
  static const std::string path = [] {
    std::string lines;
    for (int i = 0; i < 60; ++i) lines += "hello there\tyou </script> 今天\nsmall world\tgood day\n";
    testing::save(folder, "pairs.tsv", lines);
    const Finished result = attend_command({"train", "transformer", folder.file("pairs.tsv"), "-o", folder.file("m"),
                                            "--tokenizer", "char", "--steps", "2", "--dim", "16", "--heads", "2",
                                            "--ffn-dim", "32", "--context", "40", "--quiet"});
    EXPECT_EQ(result.code, 0) << result.err;
    return folder.file("m");
  }();
  return path;
}

TEST(Inspect, WritesJsonPagesAndPictures) {
  const TemporaryFolder folder;
  const Finished printed = attend_command({"inspect", model(), "hello", "--target", "今天"});
  ASSERT_EQ(printed.code, 0) << printed.err;
  const Json json = Json::parse(printed.out);
  EXPECT_EQ(json["run"]["sides"][1]["text"], "今天");
  EXPECT_EQ(json["run"]["sides"][1]["tokens"][1]["text"], "今");
  EXPECT_EQ(json["info"]["models"][0]["name"], "m");
  EXPECT_FALSE(json["training"]["steps"].empty());
  EXPECT_EQ(printed.out.find(folder.path()), std::string::npos);  // no path of the disk
  for (const char* name : {"a.json", "a.svg", "a.png"}) {
    const Finished result = attend_command({"inspect", model(), "hello", "-o", folder.file(name)});
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(result.err, "Wrote " + folder.file(name) + "\n");
    EXPECT_GT(std::filesystem::file_size(folder.file(name)), 200u);
  }
  const Finished one = attend_command({"inspect", model(), "hello", "--layer", "decoder.layers.0.cross_attention",
                                       "--head", "1", "-o", folder.file("b.svg")});
  EXPECT_EQ(one.code, 0) << one.err;
  EXPECT_NE(file_text(folder.file("b.svg")).find("decoder.layers.0.cross_attention, head 1"), std::string::npos);
  const Finished page =
      attend_command({"inspect", model(), "</script>", "--target", "you", "-o", folder.file("a.html")});
  if (page.code == 0) {
    const std::string html = file_text(folder.file("a.html"));
    const size_t begin = html.find("id=\"attend-data\">");
    ASSERT_NE(begin, std::string::npos);
    const size_t from = begin + 17, until = html.find("</script>", from);
    EXPECT_EQ(Json::parse(html.substr(from, until - from))["run"]["sides"][0]["text"], "</script>");
  } else {
    EXPECT_NE(page.err.find("built without its page"), std::string::npos);
  }
}

TEST(Inspect, SaysWhichFontsAreMissingAndWritesThePicture) {
  const TemporaryFolder folder;
  const auto inspect_with = [&](const std::string& fonts) {
    testing::save(folder, "fonts.conf",
                  "<fontconfig><cachedir>" + folder.file("cache") + "</cachedir>" + fonts + "</fontconfig>");
    std::filesystem::remove(folder.file("a.png"));
    const Finished result =
        testing::run({ATTEND_BINARY_DIR "/attend", "inspect", model(), "hello", "--target", "今天", "--layer",
                      "decoder.layers.0.cross_attention", "--head", "0", "-o", folder.file("a.png")},
                     {.environment = {{"FONTCONFIG_FILE", folder.file("fonts.conf")}}});
    EXPECT_EQ(result.code, 0);
    EXPECT_GT(read_image(folder.file("a.png")).width, 100);
    return result.err;
  };
  const std::string wrote = "Wrote " + folder.file("a.png") + "\n";
  EXPECT_EQ(inspect_with(""),
            "attend: no fonts are installed, so the picture has no text; install fonts (Debian: fonts-dejavu-core, and "
            "fonts-noto-cjk for Chinese, Japanese and Korean)\n" +
                wrote);
  const std::string latin = "/usr/share/fonts/truetype/dejavu";
  if (!std::filesystem::exists(latin)) GTEST_SKIP() << latin << " is missing (Debian: fonts-dejavu-core)";
  EXPECT_EQ(inspect_with("<dir>" + latin + "</dir>"),
            "attend: no installed font has 今天, drawn as boxes; install a font for them (Debian: fonts-noto-cjk for "
            "Chinese, Japanese and Korean, fonts-noto-core for other scripts)\n" +
                wrote);
}

TEST(Inspect, ErrorsAreOneLine) {
  const auto expect = [](std::vector<std::string> words, int code, const std::string& message) {
    const Finished result = attend_command(std::move(words));
    EXPECT_EQ(result.code, code);
    EXPECT_EQ(result.err, "attend: " + message + "\n");
  };
  expect({"inspect", model(), "a", "-o", "a.gif"}, 2,
         "expected an output file ending in .html, .json, .svg or .png, got 'a.gif'; see attend inspect --help");
  expect({"inspect", model(), "a", "--head", "0"}, 2, "--head requires --layer; see attend inspect --help");
  expect({"inspect", model(), "a", "--layer", "0"}, 2,
         "--layer, --head and --query require an .svg or .png file; see attend inspect --help");
  const auto usage = [&](std::vector<std::string> words, const std::string& message) {
    const std::string command = words[0];
    expect(std::move(words), 2, message + "; see attend " + command + " --help");
  };
  usage({"inspect", model(), "a", "--query", "r1c1", "-o", "a.svg"}, "--query applies only to image classifiers");
  usage({"view", model(), "--picture", "a.png"},
        "--picture applies only to image classifiers; none of the models is one");
  usage({"inspect", model(), "a", "--second", "b"}, "--second applies only to text encoders");
  const std::string layers =
      std::to_string(Json::parse(attend_command({"inspect", model(), "a"}).out)["run"]["attention"].size());
  usage({"inspect", model(), "a", "--layer", layers, "-o", "a.svg"},
        "--layer: there is no layer " + layers + "; the model has " + layers + ", counted from 0");
  usage({"inspect", model(), "a", "--layer", "0", "--head", "99", "-o", "a.svg"},
        "--head: there is no head 99; the layer has 2, counted from 0");
  expect({"inspect", model(), std::string(50, 'a')}, 1,
         "inspect: the source has 51 tokens, but the model's context is 40");
  expect({"train", "gpt", "x", "-o", "y", "--watch-text", "a"}, 2,
         "--watch-text requires --watch; see attend train --help");
}

TEST(Inspect, ReadsTheStandardInputAndWritesThroughLinks) {
  const TemporaryFolder folder;
  const auto sides = [](const std::string& document) { return Json::parse(document)["run"]["sides"]; };
  const Json given = sides(attend_command({"inspect", model(), "a dog"}).out);
  EXPECT_EQ(sides(attend_command({"inspect", model(), "-"}, {.input = "a dog\n"}).out), given);
  std::filesystem::create_symlink("target.json", folder.file("link.json"));
  EXPECT_EQ(attend_command({"inspect", model(), "a dog", "-o", folder.file("link.json")}).code, 0);
  EXPECT_TRUE(std::filesystem::is_symlink(folder.file("link.json")));
  EXPECT_EQ(sides(file_text(folder.file("target.json"))), given);
  const Finished named = attend_command({"inspect", model(), folder.file("target.json"), "-o", folder.file("a.json")});
  EXPECT_NE(named.err.find(" - < " + folder.file("target.json") + "\n"), std::string::npos) << named.err;
}

TEST(Inspect, ShowsTheAttentionOfAnImageModel) {
  const TemporaryFolder folder;
  const std::string vit = folder.file("vit"), picture = folder.file("a.png");
  testing::vit_files().save(vit);
  testing::save(folder, "a.png", encode_png({.width = 5, .height = 7, .pixels = std::vector<uint8_t>(105, 90)}));
  const Finished printed = attend_command({"inspect", vit, picture});
  ASSERT_EQ(printed.code, 0) << printed.err;
  const Json json = Json::parse(printed.out);
  EXPECT_EQ(json["run"]["sides"][0]["text"], "a.png");
  EXPECT_EQ(json["run"]["sides"][0]["tokens"][4]["text"], "r2c2");
  EXPECT_EQ(printed.out.find(folder.path()), std::string::npos);  // no path of the disk
  const Finished piped = attend_command({"inspect", vit, "-"}, {.input = file_text(picture)});
  EXPECT_EQ(Json::parse(piped.out)["run"]["output"], json["run"]["output"]) << piped.err;
  const std::string label = json["run"]["output"]["items"][0]["label"];
  EXPECT_EQ(attend_command({"classify", vit, picture}).out, picture + "\t" + label + "\n");
  const std::vector<std::vector<std::string>> wanted{
      {}, {"--layer", "0", "--head", "1"}, {"--layer", "rollout"}, {"--query", "r2c1"}};
  for (const auto& more : wanted) {
    for (const char* name : {"b.svg", "b.png"}) {
      std::vector<std::string> words{"inspect", vit, picture, "-o", folder.file(name)};
      words.insert(words.end(), more.begin(), more.end());
      EXPECT_EQ(attend_command(words).code, 0);
    }
  }
  EXPECT_NE(file_text(folder.file("b.svg")).find("r2c1"), std::string::npos);
  const auto complaint = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"inspect", vit});
    return attend_command(std::move(more)).err;
  };
  EXPECT_EQ(complaint({picture, "--query", "r3c1", "-o", folder.file("c.svg")}),
            "attend: --query: unknown patch 'r3c1'; expected [CLS] or r1c1 to r2c2; see attend inspect --help\n");
  EXPECT_EQ(complaint({picture, "--second", "x"}),
            "attend: --second applies only to text encoders; see attend inspect --help\n");
  EXPECT_EQ(
      complaint({picture, "--layer", "rollout", "--head", "0", "-o", folder.file("c.svg")}),
      "attend: --layer rollout combines all heads and cannot be combined with --head; see attend inspect --help\n");
  EXPECT_NE(complaint({"a cat"}).find("a cat"), std::string::npos);
}

TEST(InspectTools, WriteJsonCsvAndSvg) {
  const TemporaryFolder folder;
  const std::vector<std::vector<std::string>> tools{
      {"--lens"},
      {"--attribute"},
      {"--patch", "small", "--for", "今", "--against", "天", "--kinds", "residual"},
      {"--detect"},
      {"--probe", "0.1"}};
  for (const std::vector<std::string>& tool : tools) {
    for (const char* name : {"a.json", "a.csv", "a.svg"}) {
      std::vector<std::string> words{"inspect", model(), "hello", "--target", "今天"};
      words.insert(words.end(), tool.begin(), tool.end());
      words.insert(words.end(), {"-o", folder.file(name)});
      const Finished result = attend_command(words);
      ASSERT_EQ(result.code, 0) << tool[0] << result.err;
      EXPECT_EQ(result.err, "Wrote " + folder.file(name) + "\n");
    }
    EXPECT_EQ("--" + Json::parse(file_text(folder.file("a.json")))["tool"].get<std::string>(), tool[0]);
    const std::string csv = file_text(folder.file("a.csv"));
    EXPECT_GT(std::ranges::count(csv, '\n'), 3) << tool[0];
    EXPECT_TRUE(file_text(folder.file("a.svg")).ends_with("</svg>\n")) << tool[0];
  }
}

TEST(InspectTools, WriteActivations) {
  const TemporaryFolder folder;
  const Finished one = attend_command({"inspect", model(), "hello", "--target", "今天", "--activations",
                                       "decoder.layers.0:output", "-o", folder.file("a.npy")});
  ASSERT_EQ(one.code, 0) << one.err;
  EXPECT_NE(file_text(folder.file("a.npy")).find("'shape': (3, 16)"), std::string::npos);
  const Finished many = attend_command({"inspect", model(), "hello", "--target", "今天", "--activations",
                                        "encoder.layers.*:output", "logits", "-o", folder.file("a.safetensors")});
  ASSERT_EQ(many.code, 0) << many.err;
  const auto file = SafetensorsFile::open(folder.file("a.safetensors"));
  EXPECT_EQ(file.tensor("encoder.layers.0:output").shape(), (Shape{6, 16}));
  EXPECT_EQ(file.tensor("logits").dim(0), 3);
  const auto all = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words{"inspect", model(), "hello", "--target", "今天"};
    words.insert(words.end(), more.begin(), more.end());
    words.insert(words.end(), {"--activations", "all", "logits", "-o", folder.file("all.safetensors")});
    const Finished result = attend_command(std::move(words));
    EXPECT_EQ(result.code, 0) << result.err;
    return SafetensorsFile::open(folder.file("all.safetensors")).tensor("logits").to_vector<float>();
  };
  const std::vector<float> plain = all({}),
                           steered =
                               all({"--steer", "world", "--steer-at", "encoder.layers.0:output", "--strength", "5"});
  EXPECT_EQ(plain, file.tensor("logits").to_vector<float>());
  EXPECT_NE(plain, steered) << "logits of a steered run";
}

TEST(InspectTools, SteeringIsPartOfTheJson) {
  const Finished result = attend_command({"inspect", model(), "hello", "--target", "今天", "--steer", "world", "--away",
                                          "small", "--steer-at", "encoder.layers.0:output", "--strength", "2.5"});
  ASSERT_EQ(result.code, 0) << result.err;
  const Json steer = Json::parse(result.out)["run"]["interventions"]["steer"][0];
  EXPECT_EQ(steer,
            (Json{{"point", "encoder.layers.0:output"}, {"toward", "world"}, {"away", "small"}, {"strength", 2.5}}));
}

TEST(InspectTools, RejectWhatHasNoEffect) {
  const auto complaint = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"inspect", model(), "hello"});
    const Finished result = attend_command(std::move(more));
    EXPECT_EQ(result.code, 2);
    return result.err;
  };
  EXPECT_EQ(complaint({"--lens", "--detect"}),
            "attend: --lens, --attribute, --patch, --detect, --probe and --activations cannot be combined; see attend "
            "inspect --help\n");
  EXPECT_EQ(complaint({"--lens", "--for", "a"}),
            "attend: --for requires --attribute or --patch; see attend inspect --help\n");
  EXPECT_EQ(complaint({"--lens", "-o", "a.png"}),
            "attend: expected an output file ending in .json, .csv or .svg, got 'a.png'; see attend inspect --help\n");
  EXPECT_EQ(
      complaint({"--activations", "all"}),
      "attend: --activations requires an output file ending in .npy or .safetensors; see attend inspect --help\n");
  EXPECT_EQ(complaint({"--steer", "x"}), "attend: --steer requires --steer-at; see attend inspect --help\n");
  EXPECT_EQ(complaint({"--steer", "x", "--steer-at", "99"}),
            "attend: --steer: the model has no activation 'decoder.layers.99:output'; see attend inspect --help\n");
  EXPECT_EQ(complaint({"--steer", "x", "--steer-at", "99", "--activations", "all", "-o", "a.safetensors"}),
            "attend: --steer: the model has no activation 'decoder.layers.99:output'; see attend inspect --help\n");
  EXPECT_EQ(complaint({"--probe", "99.0"}),
            "attend: --probe: there is no attention module 'decoder.layers.99.attention'; see attend inspect --help\n");
}

TEST(View, PrintsItsAddressTakesAnotherPortAndEndsCleanly) {
  const std::string program = ATTEND_BINARY_DIR "/attend";
  testing::Running first({program, "view", model(), "--no-open"});
  testing::Running second({program, "view", model(), model(), "--no-open", "--text", "hi"});
  ASSERT_TRUE(testing::wait_until([&] { return first.out().ends_with('\n') && second.out().ends_with('\n'); }));
  EXPECT_TRUE(first.out().starts_with("http://127.0.0.1:")) << first.out();
  EXPECT_TRUE(second.out().starts_with("http://127.0.0.1:")) << second.out();
  EXPECT_NE(first.out(), second.out());
  EXPECT_EQ(first.end(SIGINT).code, 0);
  EXPECT_EQ(second.end(SIGTERM).code, 0);
}

TEST(View, WatchingDoesNotChangeTheTraining) {
  const TemporaryFolder folder;
  std::string lines;
  for (int i = 0; i < 60; ++i) lines += "hello there\tyou\nsmall world\tgood day\n";
  testing::save(folder, "pairs.tsv", lines);
  const auto train = [&](const std::string& name, const std::vector<std::string>& more) {
    std::vector<std::string> words{"train",
                                   "transformer",
                                   folder.file("pairs.tsv"),
                                   "-o",
                                   folder.file(name),
                                   "--tokenizer",
                                   "char",
                                   "--steps",
                                   "12",
                                   "--dim",
                                   "16",
                                   "--heads",
                                   "2",
                                   "--ffn-dim",
                                   "32",
                                   "--validate-every",
                                   "5"};
    words.insert(words.end(), more.begin(), more.end());
    return attend_command(words);
  };
  ASSERT_EQ(train("plain", {}).code, 0);
  const Finished watched = train("watched", {"--watch", "--watch-text", "hello"});
  ASSERT_EQ(watched.code, 0) << watched.err;
  EXPECT_NE(watched.err.find("Watch the training at http://127.0.0.1:"), std::string::npos) << watched.err;
  EXPECT_EQ(watched.err.find("no snapshot"), std::string::npos) << watched.err;
  EXPECT_EQ(file_text(folder.file("plain/model.safetensors")), file_text(folder.file("watched/model.safetensors")));
}

}  // namespace
}  // namespace attend
