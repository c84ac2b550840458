// The commands that use a model, on small untrained models.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "attend/models/registry.h"
#include "attend/text/tokenizer.h"
#include "attend/text/utf8.h"
#include "testing/process.h"

namespace attend {
namespace {

using testing::Finished;
using testing::lines_of;
using testing::ProcessOptions;
using testing::TemporaryFolder;
using Json = nlohmann::json;
using Words = std::vector<std::string>;

class ModelCommands : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TemporaryFolder>();
    make("pairs", "transformer", {{"ffn_dim", "32"}, {"encoder_layers", "2"}, {"decoder_layers", "2"}});
    make("rnn", "rnn", {{"state_dim", "24"}});
    make("text", "gpt", {{"layers", "2"}});
    make("labels", "encoder", {{"labels", R"(["good", "bad", "无所谓"])"}});
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static void make(const std::string& name, const std::string& architecture,
                   std::map<std::string, std::string> settings) {
    size_t next = 0;
    const std::vector<std::string> corpus{"the quick brown fox jumps over the lazy dog.", "今天天气很好，我们去公园。",
                                          "THE QUICK BROWN FOX 0123456789"};
    const auto tokenizer = train_tokenizer(
        [&]() -> std::optional<std::string> {
          return next < corpus.size() ? std::optional(corpus[next++]) : std::nullopt;
        },
        {.kind = TokenizerKind::characters, .vocabulary = 200, .min_count = 1});
    settings.merge(std::map<std::string, std::string>{
        {"vocab_size", std::to_string(tokenizer->size())}, {"dim", "16"}, {"context", "48"}});
    if (architecture != "rnn") settings["heads"] = "2";
    Rng rng{3};
    const auto model = create_model(with_settings(preset_config(architecture, "tiny"), settings), rng);
    save_model(*model, path(name));
    tokenizer->save(path(name));
  }

  static std::string path(const std::string& name) { return folder_->file(name); }
  static Finished attend(Words words, const ProcessOptions& options = {}) {
    words.insert(words.begin(), ATTEND_BINARY_DIR "/attend");
    return testing::run(words, options);
  }
  static std::string out(const Words& words, const ProcessOptions& options = {}) {
    const Finished result = attend(words, options);
    EXPECT_EQ(result.code, 0) << result.err;
    return result.out;
  }
  static std::string write(const std::string& name, const std::string& content) {
    std::ofstream(path(name), std::ios::binary) << content;
    return path(name);
  }

  static std::unique_ptr<TemporaryFolder> folder_;
};
std::unique_ptr<TemporaryFolder> ModelCommands::folder_;

TEST_F(ModelCommands, HelpShowsAnExample) {
  for (const char* command : {"translate", "generate", "classify", "score", "info"}) {
    const std::string help = out({command, "--help"});
    EXPECT_NE(help.find("Examples:\n  attend " + std::string(command)), std::string::npos) << command;
    EXPECT_NE(help.find("--json"), std::string::npos) << command;
  }
}

TEST_F(ModelCommands, TranslatesArgumentsFilesAndStandardInputAlike) {
  const std::string text = "the fox\n\n今天天气\nthe lazy dog jumps\n";
  const std::string expected = out({"translate", path("pairs"), "the fox", "", "今天天气", "the lazy dog jumps"});
  ASSERT_EQ(lines_of(expected).size(), 4u);
  EXPECT_EQ(lines_of(expected)[1], "");
  EXPECT_NE(lines_of(expected)[0], "");
  EXPECT_EQ(out({"translate", path("pairs")}, {.input = text}), expected);
  EXPECT_EQ(out({"translate", path("pairs"), "--unbuffered"}, {.input = text}), expected);
  EXPECT_EQ(out({"translate", path("pairs"), "-i", write("in.txt", text)}), expected);
  EXPECT_EQ(out({"translate", path("pairs"), "-o", path("out.txt")}, {.input = text}), "");
  EXPECT_EQ(testing::file_text(path("out.txt")), expected);
  for (const Words& way : std::vector<Words>{
           {"--batch", "1"}, {"--no-cache"}, {"--no-cache", "--batch", "1"}, {"--threads", "1"}, {"--beam", "1"}}) {
    Words words{"translate", path("pairs")};
    words.insert(words.end(), way.begin(), way.end());
    EXPECT_EQ(out(words, {.input = text}), expected) << way[0];
  }
}

TEST_F(ModelCommands, LongInputsKeepTheirOrder) {
  std::string text;
  for (int i = 0; i < 1300; ++i) text += std::string(static_cast<size_t>(i % 7), 'x') + std::to_string(i % 10) + "\n";
  const auto lines = lines_of(out({"translate", path("pairs"), "--max-length", "4"}, {.input = text}));
  ASSERT_EQ(lines.size(), 1300u);
  const auto sources = lines_of(text);
  for (size_t i = 70; i < lines.size(); ++i) EXPECT_EQ(lines[i], lines[i - 70]) << "equal lines, equal translations";
}

TEST_F(ModelCommands, NBestScoresAndAlignmentsAreColumns) {
  const auto lines = lines_of(out({"translate", path("pairs"), "the fox", "", "dog", "--beam", "3", "--n-best", "2",
                                   "--scores", "--alignments", "--max-length", "6"}));
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_TRUE(lines[0].starts_with("0\t"));
  EXPECT_TRUE(lines[1].starts_with("0\t"));
  EXPECT_EQ(lines[2], "1\t");
  EXPECT_TRUE(lines[4].starts_with("2\t"));
  EXPECT_EQ(std::ranges::count(lines[0], '\t'), 3);
  const Json json = Json::parse(
      out({"translate", path("pairs"), "the fox", "--beam", "3", "--n-best", "3", "--alignments", "--json"}));
  EXPECT_EQ(json["source"], "the fox");
  ASSERT_EQ(json["n_best"].size(), 3u);
  EXPECT_EQ(json["n_best"][0]["text"], json["text"]);
  EXPECT_GE(json["n_best"][0]["score"].get<double>(), json["n_best"][1]["score"].get<double>());
  EXPECT_EQ(json["alignment"]["source"], Json({"the", "fox"}));
  EXPECT_EQ(json["alignment"]["weights"].size(), json["alignment"]["target"].size());
  const auto weight = [&](const Words& more) {
    Words words{"translate", path("pairs"), "the fox", "--alignments", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const Json result = Json::parse(out(words));
    return result["alignment"]["weights"].dump();
  };
  EXPECT_NE(weight({"--layer", "0", "--head", "1"}), weight({}));
  EXPECT_NE(weight({"--layer", "0"}), weight({"--layer", "1"}));
}

TEST_F(ModelCommands, SamplingFollowsItsSeed) {
  const auto sampled = [&](const Words& more) {
    Words words{"translate", path("pairs"), "the fox", "the dog", "--temperature", "2"};
    words.insert(words.end(), more.begin(), more.end());
    return out(words);
  };
  EXPECT_EQ(sampled({"--seed", "5"}), sampled({"--seed", "5", "--threads", "1"}));
  EXPECT_EQ(sampled({"--seed", "5"}), sampled({"--seed", "5", "--batch", "1"}));
  EXPECT_NE(sampled({"--seed", "5"}), sampled({"--seed", "6"}));
  EXPECT_NE(sampled({"--seed", "5"}), sampled({"--seed", "5", "--top-k", "2"}));
}

TEST_F(ModelCommands, WarnsOfLinesThatAreTooLong) {
  const Finished result = attend({"translate", path("pairs"), "fox", std::string(100, 'x'), "--max-length", "3"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "attend: truncated 1 line to the model's maximum of 48 tokens (line 2)\n");
  for (const Words& words :
       std::vector<Words>{{"classify", path("labels"), "fox", std::string(100, 'x')},
                          {"embed", path("labels"), "fox", std::string(100, 'x')},
                          {"score", path("pairs"), "a\tb", "fox\t" + std::string(100, 'x')},
                          {"classify", path("labels"), "--pairs", "a\tb", "fox\t" + std::string(100, 'x')}}) {
    EXPECT_EQ(attend(words).err, result.err) << words[0];
  }
  EXPECT_EQ(
      attend({"classify", path("labels")}, {.input = "fox\n" + std::string(80, 'x') + "\n" + std::string(90, 'x')}).err,
      "attend: truncated 2 lines to the model's maximum of 48 tokens (the first is line 2)\n");
  const Finished bench = attend({"translate", path("pairs"), "fox", "--bench"});
  EXPECT_NE(bench.err.find(" tokens/s\n"), std::string::npos);
  EXPECT_EQ(attend({"translate", path("pairs"), "fox"}).err, "");
}

TEST_F(ModelCommands, GeneratesAfterThePrompt) {
  const std::string text = out({"generate", path("text"), "今天", "--tokens", "30", "--seed", "4"});
  EXPECT_TRUE(text.starts_with("今天"));
  EXPECT_TRUE(text.ends_with("\n"));
  EXPECT_TRUE(is_utf8(text));
  EXPECT_EQ(out({"generate", path("text"), "-", "--tokens", "30", "--seed", "4"}, {.input = "今天\n"}), text);
  EXPECT_EQ(out({"generate", path("text"), "今天", "--tokens", "30", "--seed", "4", "--no-cache"}), text);
  EXPECT_NE(out({"generate", path("text"), "今天", "--tokens", "30", "--seed", "5"}), text);
  const std::string greedy = out({"generate", path("text"), "the", "--tokens", "90", "--greedy"});
  EXPECT_EQ(greedy, out({"generate", path("text"), "the", "--tokens", "90", "--top-k", "1", "--seed", "9"}));
  const auto texts = lines_of(out({"generate", path("text"), "--count", "3", "--tokens", "9", "--json"}));
  ASSERT_EQ(texts.size(), 3u);
  const Json first = Json::parse(texts[0]), second = Json::parse(texts[1]);
  EXPECT_NE(first["text"], second["text"]);
  EXPECT_EQ(first["prompt"], "");
  EXPECT_LE(first["tokens"].get<int>(), 9);
  EXPECT_LT(first["log_probability"].get<double>(), 0);
  const std::string several = out({"generate", path("text"), "fox", "--count", "2", "--tokens", "9"});
  EXPECT_NE(several.find("\n---\nfox"), std::string::npos);
}

TEST_F(ModelCommands, DraftsChangeNoText) {
  for (const Words& command :
       {Words{"generate", path("text"), "the fox", "--tokens", "90", "--greedy", "--past-end", "--json"},
        Words{"generate", path("text"), "the fox", "--count", "2", "--temperature", "0.5", "--json"},
        Words{"translate", path("pairs"), "the fox", "--json"}}) {
    const auto with_draft = [&](const std::string& tokens) {
      Words words = command;
      words.insert(words.end(), {"--draft", tokens});
      return words;
    };
    const std::string text = out(command);
    EXPECT_EQ(out(with_draft("0")), text);
    EXPECT_EQ(out(with_draft("15")), text);
    for (const char* wrong : {"16", "-1", "many"}) EXPECT_EQ(attend(with_draft(wrong)).code, 2) << wrong;
  }
  for (const char* command : {"chat", "serve"}) {
    const Finished wrong = attend({command, path("text"), "--draft", "16"});
    EXPECT_EQ(wrong.code, 2);
    EXPECT_NE(wrong.err.find("--draft"), std::string::npos) << wrong.err;
  }
}

TEST_F(ModelCommands, GenerateStopsAtStopStrings) {
  const Words words{"generate", path("text"), "fox", "--tokens", "60", "--past-end", "--seed", "1", "--json"};
  const std::string whole = Json::parse(out(words))["text"];
  const auto characters = code_points(whole);
  ASSERT_GT(characters.size(), 9u);
  const std::string stop = to_utf8(std::u32string(characters.begin() + 5, characters.begin() + 7));
  Words stopped = words;
  stopped.insert(stopped.end(), {"--stop", stop, "--stop", "never"});
  const Json json = Json::parse(out(stopped));
  EXPECT_EQ(json["text"], whole.substr(0, whole.find(stop)));
  EXPECT_EQ(json["ending"], "stop");
}

TEST_F(ModelCommands, GenerateFollowsASchema) {
  const std::string schema = write("age.json", R"({"type": "integer", "minimum": 10, "maximum": 99})");
  for (const Words& options : {Words{"--greedy"}, Words{"--temperature", "2", "--count", "3"}, Words{"--beam", "3"}}) {
    Words words{"generate", path("text"), "the fox", "--schema", schema, "--tokens", "9", "--json"};
    words.insert(words.end(), options.begin(), options.end());
    for (const std::string& line : lines_of(out(words))) {
      const Json text = Json::parse(line);
      EXPECT_EQ(text["ending"], "end") << line;
      const int age = std::stoi(text["text"].get<std::string>());
      EXPECT_TRUE(age >= 10 && age <= 99) << line;
    }
  }
  const Finished past = attend({"generate", path("text"), "x", "--schema", schema, "--past-end"});
  EXPECT_EQ(past.code, 2);
  EXPECT_EQ(past.err, "attend: --schema cannot be combined with --past-end; see attend generate --help\n");
  const auto error = [&](const std::string& file) {
    const Finished run = attend({"generate", path("text"), "x", "--schema", file});
    EXPECT_EQ(run.code, 1);
    return run.err;
  };
  EXPECT_EQ(error("json"),
            "attend: --schema json: the vocabulary cannot write any text of this format: it has no token for '{'\n");
  EXPECT_EQ(error(write("not.json", R"({"not": {}})")), "attend: schema: #: the keyword 'not' is not supported\n");
  EXPECT_NE(error(write("bad.json", "{")).find("bad.json: "), std::string::npos);
}

TEST_F(ModelCommands, ClassifiesLines) {
  const auto lines = lines_of(out({"classify", path("labels")}, {.input = "the fox\n\n今天\n"}));
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[1], "");
  const Words labels{"good", "bad", "无所谓"};
  for (const size_t i : {0u, 2u}) EXPECT_NE(std::ranges::find(labels, lines[i]), labels.end()) << lines[i];
  const std::string row = out({"classify", path("labels"), "the fox", "--probabilities"});
  EXPECT_TRUE(row.starts_with(lines[0] + "\t" + lines[0] + "=0."));
  EXPECT_EQ(std::ranges::count(row, '='), 3);
  const Json json = Json::parse(out({"classify", path("labels"), "the fox", "--json"}));
  EXPECT_EQ(json["label"], lines[0]);
  double total = 0;
  for (const auto& [label, probability] : json["probabilities"].items()) total += probability.get<double>();
  EXPECT_NEAR(total, 1, 1e-5);
}

TEST_F(ModelCommands, ScoresPairs) {
  const Json best = Json::parse(out({"translate", path("pairs"), "the fox", "--beam", "2", "--json"}));
  const std::string target = best["text"];
  const std::string score = out({"score", path("pairs")}, {.input = "the fox\t" + target + "\n\ndog\tfox\n"});
  ASSERT_EQ(lines_of(score).size(), 3u);
  EXPECT_EQ(lines_of(score)[1], "");
  EXPECT_NEAR(std::stod(score), best["log_probability"].get<double>(), 2e-3);
  EXPECT_EQ(out({"score", path("pairs"), "--source", write("s", "the fox\n\ndog\n"), "--target",
                 write("t", target + "\n\nfox\n")}),
            score);
  const Json json = Json::parse(out({"score", path("pairs"), "dog\tfox", "--json"}));
  EXPECT_EQ(json["tokens"], 4);
  EXPECT_EQ(json["token_scores"][0]["token"], "f");
  double total = 0;
  for (const Json& word : json["token_scores"]) total += word["log_probability"].get<double>();
  EXPECT_NEAR(total, json["log_probability"].get<double>(), 1e-6);
  const Finished unequal =
      attend({"score", path("pairs"), "--source", write("s", "a\nb\n"), "--target", write("t", "a\n")});
  EXPECT_EQ(unequal.code, 1);
  EXPECT_NE(unequal.err.find("different numbers of lines"), std::string::npos);
  EXPECT_EQ(attend({"score", path("pairs"), "no tab here"}).err,
            "attend: line 1: expected source, tab, target; found no tab\n");
}

TEST_F(ModelCommands, ScoresTexts) {
  const auto lines = lines_of(out({"score", path("text"), "the fox", "", "今天"}));
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_TRUE(lines[0].ends_with("\t7"));
  EXPECT_EQ(lines[1], "");
  EXPECT_TRUE(lines[2].ends_with("\t2"));
  const Json total = Json::parse(out({"score", path("text"), "the fox", "", "今天", "--total", "--json"}));
  EXPECT_EQ(total["tokens"], 9);
  EXPECT_NEAR(total["log_probability"].get<double>(), std::stod(lines[0]) + std::stod(lines[2]), 1e-3);
  EXPECT_NEAR(total["perplexity"].get<double>(), std::exp(-total["log_probability"].get<double>() / 9), 1e-3);
  std::string text;
  for (int i = 0; i < 20; ++i) text += "the lazy dog jumps\n";
  const Json whole =
      Json::parse(out({"score", path("text"), "--whole-text", "--total", "--json", "-i", write("w", text)}));
  EXPECT_EQ(whole["texts"], 1);
  EXPECT_EQ(whole["tokens"], 380);
}

/// Reduced weights give nearly the same numbers, but not exactly the same.
TEST_F(ModelCommands, WeightsMayBeReducedToFewerBits) {
  const auto log_probability = [&](const std::string& model, const std::string& text, Words options) {
    options.insert(options.begin(), {"score", path(model), text, "--json"});
    return Json::parse(out(options))["log_probability"].get<double>();
  };
  for (const auto& [model, text] :
       {std::pair{"text", "the lazy dog"}, {"pairs", "the fox\tdog"}, {"rnn", "fox\tdog"}}) {
    const double exact = log_probability(model, text, {});
    EXPECT_EQ(log_probability(model, text, {"--dtype", "f32"}), exact);
    for (const Words& options : {Words{"--dtype", "bf16"}, {"--quantize", "int8"}}) {
      const double reduced = log_probability(model, text, options);
      EXPECT_NE(reduced, exact) << model << ' ' << options[1];
      EXPECT_NEAR(reduced, exact, 0.02 * std::abs(exact)) << model << ' ' << options[1];
    }
  }
  for (const Words& options : {Words{"--dtype", "bf16"}, {"--quantize", "int8"}}) {
    for (Words words : {Words{"generate", path("text"), "the", "--greedy", "--tokens", "5"},
                        {"translate", path("pairs"), "the fox", "--beam", "2"},
                        {"classify", path("labels"), "the fox"},
                        {"evaluate", path("text"), write("e", "the lazy dog\n")}}) {
      words.insert(words.end(), options.begin(), options.end());
      EXPECT_NE(out(words), "") << words[0] << ' ' << options[1];
    }
  }
  const Finished both = attend({"generate", path("text"), "the", "--dtype", "bf16", "--quantize", "int8"});
  EXPECT_EQ(both.code, 2);
  EXPECT_NE(both.err.find("--dtype bf16 cannot be combined with --quantize"), std::string::npos) << both.err;
  EXPECT_EQ(attend({"generate", path("text"), "the", "--quantize", "int3"}).code, 2);
  EXPECT_EQ(attend({"generate", path("text"), "the", "--dtype", "f16"}).code, 2);
}

TEST_F(ModelCommands, InfoDescribesTheModel) {
  write("pairs/training.jsonl", "{\"step\":1,\"loss\":5.5}\n{\"step\":20,\"validation_loss\":2.25}\n{\"cut off");
  const Json json = Json::parse(out({"info", path("pairs"), "--json"}));
  EXPECT_EQ(json["architecture"], "transformer");
  EXPECT_EQ(json["settings"]["dim"], 16);
  EXPECT_EQ(json["training"]["step"], 20);
  int64_t total = 0;
  for (const auto& [part, count] : json["parameters"]["parts"].items()) total += count.get<int64_t>();
  EXPECT_EQ(json["parameters"]["total"], total);
  EXPECT_EQ(json["vocabulary"]["special"]["end"]["id"], 3);
  EXPECT_EQ(json["files"]["model.safetensors"], std::filesystem::file_size(path("pairs/model.safetensors")));
  const std::string text = out({"info", path("pairs")});
  for (const char* part : {"transformer", "Settings", "Parameters", "encoder", "Special tokens", "</s> (3)", "Files",
                           "validation_loss         2.25", "model.safetensors"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part;
  }
  EXPECT_EQ(out({"info", path("text")}).find("Training"), std::string::npos);
}

TEST_F(ModelCommands, ErrorsAreOneLine) {
  const std::string pairs = path("pairs"), text = path("text");
  const std::vector<std::pair<Words, std::string>> cases{
      {{"translate", "nowhere", "x"}, "nowhere: no such model folder"},
      {{"translate", text, "x"}, text + ": this is a language model: use attend generate"},
      {{"generate", pairs, "x"}, pairs + ": this is a translation model: use attend translate"},
      {{"classify", pairs, "x"}, pairs + ": this is a translation model: use attend translate"},
      {{"score", path("labels"), "x"}, path("labels") + ": this is a text classifier: use attend classify"},
      {{"translate", path("rnn"), "fox", "--alignments"},
       "align: architecture rnn has no cross-attention, so there is no alignment"},
      {{"translate", pairs, "ab\xff"}, "text:1: not UTF-8"},
      {{"translate", pairs, "-i", path("none")}, path("none") + ": cannot open: No such file or directory"},
      {{"translate", pairs, "x", "-o", path("none/out")}, ""},
  };
  for (const auto& [words, message] : cases) {
    const Finished result = attend(words);
    EXPECT_EQ(result.code, 1) << words[0];
    if (!message.empty()) {
      EXPECT_EQ(result.err, "attend: " + message + "\n");
    }
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
  }
  for (const Words& words : std::vector<Words>{{"translate"},
                                               {"translate", pairs, "x", "--beam", "0"},
                                               {"translate", pairs, "x", "--n-best", "2"},
                                               {"translate", pairs, "x", "--beam", "2", "--sample"},
                                               {"translate", pairs, "x", "--layer", "1"},
                                               {"generate", text, "x", "--top-p", "1.5"},
                                               {"generate", text, "x", "--greedy", "--top-k", "3"},
                                               {"translate", pairs, "fox", "--alignments", "--layer", "2"},
                                               {"translate", pairs, "fox", "-"},
                                               {"score", pairs, "--source", "x"},
                                               {"score", pairs, "--whole-text"},
                                               {"score", text, "--source", "x", "--target", "y"},
                                               {"generate", text, "x", "--whole-text"},
                                               {"convert", text, "-o", path("c"), "--to", "palm"},
                                               {"info"}}) {
    const Finished result = attend(words);
    EXPECT_EQ(result.code, 2) << words[0] << ": " << result.err;
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
  }
  const Finished lossy = attend({"translate", pairs, "ab\xff", "--lossy"});
  EXPECT_EQ(lossy.code, 0) << lossy.err;
  const Finished full = attend({"translate", pairs, "x"}, {.out_path = "/dev/full"});
  EXPECT_EQ(full.code, 1);
  EXPECT_EQ(full.err, "attend: cannot write the output\n");
  EXPECT_FALSE(std::filesystem::exists(path("none")));
}

TEST_F(ModelCommands, AFileIsWrittenCompletelyOrNotAtAll) {
  write("kept.txt", "as before\n");
  const Finished result = attend({"translate", path("pairs"), "-o", path("kept.txt")}, {.input = "fox\nb\xff\n"});
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.err, "attend: stdin:2: not UTF-8\n");
  EXPECT_EQ(testing::file_text(path("kept.txt")), "as before\n");
}

TEST_F(ModelCommands, DevicesAreWrittenDirectly) {
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  const int reader = open(path("pipe").c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  const std::string expected = out({"translate", path("pairs"), "fox"});
  EXPECT_EQ(out({"translate", path("pairs"), "fox", "-o", path("pipe")}), "");
  std::string got(1000, '\0');
  got.resize(static_cast<size_t>(std::max<ssize_t>(read(reader, got.data(), got.size()), 0)));
  close(reader);
  EXPECT_EQ(got, expected);
  EXPECT_TRUE(std::filesystem::is_fifo(path("pipe"))) << "a file has taken its place";
}

}  // namespace
}  // namespace attend
