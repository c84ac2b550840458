// Runs `attend evaluate` and compares it with sacreBLEU's figures and with the other commands.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "testing/process.h"

namespace attend {
namespace {

using nlohmann::json;
using testing::Finished;
using testing::TemporaryFolder;
using Words = std::vector<std::string>;

const std::string kGolden = ATTEND_SOURCE_DIR "/../shared/data/corpora/sacrebleu-golden";

Finished attend_command(Words words, const testing::ProcessOptions& options = {}) {
  words.insert(words.begin(), ATTEND_BINARY_DIR "/attend");
  return testing::run(words, options);
}

json evaluated(Words words) {
  words.insert(words.begin(), "evaluate");
  words.push_back("--json");
  const Finished result = attend_command(words);
  EXPECT_EQ(result.code, 0) << result.err;
  const json parsed = json::parse(result.out, nullptr, false);
  EXPECT_TRUE(parsed.is_object()) << result.out;
  return parsed;
}

std::string write(const TemporaryFolder& folder, const std::string& name, const std::string& text) {
  std::ofstream(folder.file(name), std::ios::binary) << text;
  return folder.file(name);
}

std::string write_lines(const TemporaryFolder& folder, const std::string& name, const Words& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return write(folder, name, text);
}

Words lines_of(const std::string& text) {
  Words lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// A corpus of digits and their German names.
struct Digits {
  Words sources, targets, pairs, labelled;
};
Digits digits(int count, uint32_t seed) {
  const Words names{"null", "eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun"};
  Digits result;
  const auto next = [&seed] { return (seed = seed * 1664525 + 1013904223) >> 16; };
  for (int i = 0; i < count; ++i) {
    std::string source, target;
    const auto length = 1 + next() % 5;
    for (uint32_t k = 0; k < length; ++k) {
      const auto digit = next() % 10;
      if (k > 0) source += ' ', target += ' ';
      source += std::to_string(digit);
      target += names[digit];
    }
    result.sources.push_back(source);
    result.targets.push_back(target);
    result.pairs.push_back(source + "\t" + target);
    result.labelled.push_back((length > 2 ? "lang\t" : "kurz\t") + target);
  }
  return result;
}

void train(Words words) {
  words.insert(words.begin(), "train");
  words.insert(words.end(), {"--dim", "16", "--quiet", "--warmup", "5"});
  const Finished result = attend_command(words);
  ASSERT_EQ(result.code, 0) << result.err;
}

TEST(EvaluateHypotheses, MatchSacreBleu) {
  if (!std::filesystem::exists(kGolden)) GTEST_SKIP() << kGolden << " is not there";
  const json golden = json::parse(testing::file_text(kGolden + "/golden.json"));
  int found = 0;
  for (const json& section : golden) {
    if (!section.is_object()) continue;
    for (const auto& [system, expected] : section.items()) {
      const std::string path = kGolden + "/" + system + ".de";
      if (!expected.is_object() || !std::filesystem::exists(path)) continue;
      Words words{"--hypotheses", path, kGolden + "/reference.de"};
      if (expected.contains("bleu")) {
        words.insert(words.end(), {"--metric-tokenizer", "none"});
        const json ours = evaluated(words);
        EXPECT_NEAR(ours["bleu"].get<double>(), expected["bleu"].get<double>(), 1e-6) << system;
        EXPECT_EQ(ours["bleu_signature"], "nrefs:1|case:mixed|eff:no|tok:none|smooth:exp");
        ++found;
      } else if (expected.contains("bleu_13a")) {  // the reference has four decimals
        const json ours = evaluated(words);
        EXPECT_NEAR(ours["bleu"].get<double>(), expected["bleu_13a"].get<double>(), 5.001e-5) << system;
        EXPECT_EQ(ours["bleu_signature"], "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp");
        ++found;
      }
    }
  }
  EXPECT_GE(found, 2);
}

TEST(EvaluateHypotheses, TakeSeveralReferencesAndOptions) {
  if (!std::filesystem::exists(kGolden)) GTEST_SKIP() << kGolden << " is not there";
  const json section = json::parse(testing::file_text(kGolden + "/golden.json"))["corpus_bleu"];
  const TemporaryFolder folder;
  const std::string hypotheses = write_lines(folder, "out", section["hyps"]);
  Words words{"--hypotheses", hypotheses};
  for (size_t i = 0; i < section["refs"].size(); ++i) {
    words.push_back(write_lines(folder, "ref" + std::to_string(i), section["refs"][i]));
  }
  int checked = 0;
  for (const json& c : section["cases"]) {
    const json& options = c[0];
    Words all = words;
    if (options.contains("tokenize")) all.insert(all.end(), {"--metric-tokenizer", options["tokenize"]});
    if (options.value("lowercase", false)) all.push_back("--lowercase");
    if (options.size() != static_cast<size_t>(options.contains("tokenize")) + options.contains("lowercase")) continue;
    EXPECT_NEAR(evaluated(all)["bleu"].get<double>(), c[1].get<double>(), 1e-6) << options;
    ++checked;
  }
  EXPECT_GE(checked, 3);
}

TEST(EvaluateHypotheses, ArePrintedWithSignatures) {
  const TemporaryFolder folder;
  const std::string out = write(folder, "out", "今天天气很好。\n你好\n");
  const Finished result = attend_command({"evaluate", "--hypotheses", out, out});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.out.find("BLEU         100.00   100.0/100.0/100.0/100.0 (BP = 1.000"), std::string::npos)
      << result.out;
  EXPECT_NE(result.out.find("nrefs:1|case:mixed|eff:no|tok:zh|smooth:exp"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("chrF2++      100.00   nrefs:1|case:mixed|eff:yes|nc:6|nw:2|space:no"), std::string::npos);
}

TEST(EvaluateTranslator, AgreesWithTheOtherCommands) {
  const TemporaryFolder folder;
  const Digits training = digits(300, 1);
  Digits test = digits(40, 2);
  const std::string model = folder.file("model");
  train({"transformer",
         write_lines(folder, "train.tsv", training.pairs),
         "-o",
         model,
         "--tokenizer",
         "word",
         "--heads",
         "2",
         "--ffn-dim",
         "32",
         "--encoder-layers",
         "1",
         "--decoder-layers",
         "1",
         "--steps",
         "60",
         "--batch-tokens",
         "256",
         "--lr",
         "0.01"});
  const std::string source = write_lines(folder, "test.src", test.sources);
  const std::string target = write_lines(folder, "test.tgt", test.targets), out = folder.file("out");
  const json greedy = evaluated({model, source, target, "--output", out});
  EXPECT_EQ(greedy["sentences"], 40);
  EXPECT_EQ(greedy["beam"], 1);
  EXPECT_GT(greedy["bleu"].get<double>(), 1);
  EXPECT_EQ(evaluated({"--hypotheses", out, target})["bleu"], greedy["bleu"]);
  EXPECT_EQ(testing::file_text(out), attend_command({"translate", model, "-i", source}).out);

  const Finished score = attend_command({"score", model, "--source", source, "--target", target, "--total", "--json"});
  const json total = json::parse(score.out);
  EXPECT_NEAR(greedy["perplexity"].get<double>(), total["perplexity"].get<double>(), 1e-4);
  EXPECT_EQ(greedy["tokens"], total["tokens"]);

  const json tabs = evaluated({model, write_lines(folder, "test.tsv", test.pairs), "--threads", "1"});
  for (const char* key : {"bleu", "chrf", "chrf++", "loss"}) EXPECT_EQ(tabs[key], greedy[key]) << key;
  evaluated({model, source, target, "--beam", "4", "-o", out});
  EXPECT_EQ(testing::file_text(out), attend_command({"translate", model, "-i", source, "--beam", "4"}).out);

  // Blank lines keep their positions and do not count in the loss.
  test.sources[3] = "", test.targets[3] = "";
  const json blank = evaluated({model, write_lines(folder, "blank.src", test.sources),
                                write_lines(folder, "blank.tgt", test.targets), "-o", out});
  EXPECT_EQ(blank["sentences"], 39);
  EXPECT_EQ(blank["left_out"], 1);
  EXPECT_EQ(lines_of(testing::file_text(out)).size(), 40u);
  EXPECT_EQ(lines_of(testing::file_text(out))[3], "");
  EXPECT_LT(blank["tokens"], greedy["tokens"]);
}

TEST(EvaluateLanguageModel, GivesPerplexityAndBits) {
  const TemporaryFolder folder;
  std::string text, chinese;
  for (int i = 0; i < 60; ++i) text += "to be or not to be\n", chinese += "今天天气很好\n";
  const std::string corpus = write(folder, "text", text + chinese), english = write(folder, "en", text),
                    other = write(folder, "zh", chinese), model = folder.file("model");
  train({"gpt", corpus, "-o", model, "--tokenizer", "char", "--heads", "2", "--layers", "1", "--context", "16",
         "--steps", "30", "--lr", "0.01"});
  const json measures = evaluated({model, english});
  const double nats = measures["loss"].get<double>() * measures["tokens"].get<double>();
  EXPECT_EQ(measures["characters"], text.size());
  EXPECT_EQ(measures["bytes"], text.size());
  EXPECT_EQ(measures["words"], 60 * 6);
  EXPECT_EQ(measures["unknown_tokens"], 0);
  EXPECT_NEAR(measures["bits_per_character"].get<double>(), nats / std::log(2.0) / static_cast<double>(text.size()),
              1e-9);
  EXPECT_NEAR(measures["word_perplexity"].get<double>(), std::exp(nats / 360), 1e-6);
  const Finished score = attend_command({"score", model, "-i", english, "--whole-text", "--total", "--json"});
  EXPECT_NEAR(measures["perplexity"].get<double>(), json::parse(score.out)["perplexity"].get<double>(), 1e-4);

  const json zh = evaluated({model, other});
  EXPECT_TRUE(zh["word_perplexity"].is_null());
  EXPECT_EQ(zh["characters"], 60 * 7);
  EXPECT_EQ(zh["bytes"], chinese.size());
  EXPECT_EQ(evaluated({model, other, "--by-line"})["texts"], 60);
  const json strange = evaluated({model, write(folder, "strange", "to be ж\n")});
  EXPECT_EQ(strange["unknown_tokens"], 1);
}

TEST(EvaluateClassifier, CountsTheLabelsOfClassify) {
  const TemporaryFolder folder;
  const std::string model = folder.file("model");
  train({"encoder", write_lines(folder, "train", digits(300, 3).labelled), "-o", model, "--tokenizer", "word",
         "--heads", "2", "--layers", "1", "--steps", "40", "--lr", "0.01"});
  const Digits test = digits(50, 4);
  std::string texts;
  for (const std::string& target : test.targets) texts += target + "\n";
  const Words answers = lines_of(attend_command({"classify", model}, {.input = texts}).out);
  ASSERT_EQ(answers.size(), 50u);
  int right = 0, both_long = 0;
  for (size_t i = 0; i < answers.size(); ++i) {
    const std::string expected = test.labelled[i].substr(0, 4);
    right += answers[i] == expected;
    both_long += answers[i] == "lang" && expected == "lang";
  }
  Words labelled = test.labelled;
  const json measures = evaluated({model, write_lines(folder, "test", labelled)});
  EXPECT_EQ(measures["texts"], 50);
  EXPECT_NEAR(measures["accuracy"].get<double>(), right / 50.0, 1e-12);
  EXPECT_EQ(measures["labels"][1]["label"], "lang");
  EXPECT_EQ(measures["confusion"][1][1], both_long);
  EXPECT_EQ(measures["unknown_labels"], 0);

  labelled.push_back("neu\teins zwei");
  const std::string path = write_lines(folder, "more", labelled);
  const json more = evaluated({model, path});
  EXPECT_EQ(more["unknown_labels"], 1);
  const json unknown = evaluated({model, write_lines(folder, "unknown", {"neu\teins zwei"})});
  EXPECT_EQ(unknown["texts"], 1);
  EXPECT_TRUE(unknown["loss"].is_null()) << "no text has a loss";
  EXPECT_NEAR(more["accuracy"].get<double>(), right / 51.0, 1e-12);
  EXPECT_EQ(more["labels"][2]["label"], "neu");
  EXPECT_EQ(more["labels"][2]["recall"], 0);
  const Finished printed = attend_command({"evaluate", model, path});
  EXPECT_NE(printed.out.find("1 text has a label the model does not know: counted as wrong"), std::string::npos);
  EXPECT_NE(printed.out.find("precision  recall"), std::string::npos) << printed.out;
}

TEST(Evaluate, ErrorsAreOneLine) {
  const TemporaryFolder folder;
  const std::string two = write(folder, "two", "a\nb\n"), one = write(folder, "one", "a\n"),
                    empty = write(folder, "empty", ""), bad = write(folder, "bad", "a\n\xff\n");
  const std::vector<std::tuple<int, Words, std::string>> cases{
      {2, {}, "expected a model and evaluation files; see attend evaluate --help"},
      {2, {"model"}, "expected a model and evaluation files; see attend evaluate --help"},
      {2, {"--hypotheses", two}, "--hypotheses requires one or more reference files; see attend evaluate --help"},
      {2,
       {"--hypotheses", two, two, "--metric-tokenizer", "13b"},
       "--metric-tokenizer: bleu: expected the tokenizer 13a, zh, char, intl or none, got '13b'; see attend evaluate "
       "--help"},
      {1,
       {"--hypotheses", two, two, one},
       two + " has 2 lines but " + one + " has 1; hypotheses and references must have the same number of lines"},
      {1, {"--hypotheses", empty, two}, empty + ": the file is empty"},
      {1, {"--hypotheses", two, bad}, bad + ":2: not UTF-8"},
  };
  for (const auto& [code, words, message] : cases) {
    Words all{"evaluate"};
    all.insert(all.end(), words.begin(), words.end());
    const Finished result = attend_command(all);
    EXPECT_EQ(result.code, code);
    EXPECT_EQ(result.err, "attend: " + message + "\n");
    EXPECT_EQ(result.out, "");
  }
  const Finished missing = attend_command({"evaluate", folder.file("nothing"), two});
  EXPECT_EQ(missing.code, 1);
  EXPECT_TRUE(missing.err.starts_with("attend: " + folder.file("nothing"))) << missing.err;
  EXPECT_EQ(std::ranges::count(missing.err, '\n'), 1);
  const Finished lossy = attend_command({"evaluate", "--hypotheses", two, bad, "--lossy"});
  EXPECT_EQ(lossy.code, 0) << lossy.err;
}

}  // namespace
}  // namespace attend
