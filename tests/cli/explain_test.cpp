// Runs `attend explain` and checks its output.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "attend/text/segment.h"
#include "testing/process.h"

namespace attend {
namespace {

using testing::Finished;
using testing::ProcessOptions;
using Json = nlohmann::json;
using Words = std::vector<std::string>;
using Matrix = std::vector<std::vector<double>>;

const std::string kProgram = ATTEND_BINARY_DIR "/attend";

Words command(Words words) {
  words.insert(words.begin(), {kProgram, "explain"});
  return words;
}
Finished explain(const Words& words, const ProcessOptions& options = {}) {
  return testing::run(command(words), options);
}
Json explain_json(Words words) {
  words.push_back("--json");
  const Finished result = explain(words);
  EXPECT_EQ(result.code, 0) << result.err;
  return Json::parse(result.out);
}

/// null stands for −∞.
Matrix matrix(const Json& rows) {
  Matrix result;
  for (const Json& row : rows) {
    auto& values = result.emplace_back();
    for (const Json& value : row) values.push_back(value.is_null() ? -INFINITY : value.get<double>());
  }
  return result;
}

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix c(a.size(), std::vector<double>(b[0].size()));
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t k = 0; k < b.size(); ++k) {
      for (size_t j = 0; j < b[0].size(); ++j) c[i][j] += a[i][k] * b[k][j];
    }
  }
  return c;
}

Matrix transposed(const Matrix& a) {
  Matrix result(a[0].size(), std::vector<double>(a.size()));
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = 0; j < a[0].size(); ++j) result[j][i] = a[i][j];
  }
  return result;
}

Matrix softmax_rows(Matrix a) {
  for (auto& row : a) {
    double sum = 0;
    for (double& value : row) sum += value = std::exp(value);
    for (double& value : row) value /= sum;
  }
  return a;
}

void expect_near(const Matrix& got, const Matrix& expected, const char* what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].size(), expected[i].size()) << what;
    for (size_t j = 0; j < got[i].size(); ++j) {
      if (std::isinf(expected[i][j]))
        EXPECT_EQ(got[i][j], expected[i][j]) << what;
      else
        EXPECT_NEAR(got[i][j], expected[i][j], 1e-12) << what << " " << i << "," << j;
    }
  }
}

/// Columns begin … begin + count - 1.
Matrix columns(const Matrix& a, size_t begin, size_t count) {
  Matrix result;
  for (const auto& row : a) {
    const auto from = row.begin() + static_cast<std::ptrdiff_t>(begin);
    result.emplace_back(from, from + static_cast<std::ptrdiff_t>(count));
  }
  return result;
}

/// Expects every number to follow from the ones before by its equation, and outputs and weights to match the fused
/// attention.
void expect_consistent(const Json& json) {
  const size_t heads = json["heads"], dim = json["dim"], width = dim / heads, length = json["tokens"].size();
  const Matrix x = matrix(json["x"]);
  Matrix q = x, k = x, v = x, joined(length);
  if (json["trainable"]) {
    q = product(x, matrix(json["matrices"]["query"]));
    k = product(x, matrix(json["matrices"]["key"]));
    v = product(x, matrix(json["matrices"]["value"]));
  }
  EXPECT_NEAR(json["scale"].get<double>(), 1 / std::sqrt(static_cast<double>(width)), 1e-15);
  ASSERT_EQ(json["per_head"].size(), heads);
  for (size_t h = 0; h < heads; ++h) {
    const Json& head = json["per_head"][h];
    expect_near(matrix(head["queries"]), columns(q, h * width, width), "queries");
    expect_near(matrix(head["keys"]), columns(k, h * width, width), "keys");
    expect_near(matrix(head["values"]), columns(v, h * width, width), "values");
    expect_near(matrix(head["dot_products"]), product(matrix(head["queries"]), transposed(matrix(head["keys"]))),
                "dots");
    Matrix scores = matrix(head["dot_products"]);
    for (auto& row : scores) {
      for (double& value : row) value *= json["scale"].get<double>();
    }
    expect_near(matrix(head["scaled"]), scores, "scaled");
    for (size_t i = 0; i < length && json["causal"]; ++i) {
      for (size_t j = i + 1; j < length; ++j) scores[i][j] = -INFINITY;
    }
    expect_near(matrix(head["masked"]), scores, "masked");
    expect_near(matrix(head["weights"]), softmax_rows(scores), "weights");
    const Matrix context = matrix(head["context"]);
    expect_near(context, product(matrix(head["weights"]), matrix(head["values"])), "context");
    for (size_t i = 0; i < length; ++i) joined[i].insert(joined[i].end(), context[i].begin(), context[i].end());
  }
  const Json& output = json["trainable"] ? json["matrices"]["output"] : Json();
  expect_near(matrix(json["output"]), output.is_null() ? joined : product(joined, matrix(output)), "output");
}

TEST(Explain, NumbersFollowFromEachOther) {
  const std::string text = "今天天气很好";
  const std::vector<Words> cases{{text},
                                 {text, "--no-causal"},
                                 {text, "--trainable"},
                                 {text, "--heads", "2", "--positions"},
                                 {text, "--heads", "3", "--trainable", "--seed", "7"},
                                 {text, "--heads", "4", "--dim", "12", "--trainable", "--no-causal", "--positions"},
                                 {"word"},
                                 {text, "--dim", "1"}};
  for (const Words& words : cases) {
    const Json json = explain_json(words);
    expect_consistent(json);
    if (HasFailure()) FAIL() << "with " << Json(words);
  }
}

TEST(Explain, EachOptionDoesWhatItSays) {
  const Json plain = explain_json({"a b a"});
  EXPECT_EQ(plain["tokens"], (Words{"a", "b", "a"}));
  EXPECT_EQ(plain["dim"], 4);
  EXPECT_EQ(plain["positions"], nullptr);
  EXPECT_EQ(plain["matrices"], nullptr);
  EXPECT_EQ(plain["x"][0], plain["x"][2]) << "the same token has the same vector";
  EXPECT_EQ(explain_json({"a b a"}), plain) << "the same seed gives the same numbers";
  EXPECT_NE(explain_json({"a b a", "--seed", "1"})["x"], plain["x"]);
  EXPECT_EQ(plain["per_head"][0]["masked"][0][1], nullptr);
  EXPECT_NE(explain_json({"a b a", "--no-causal"})["per_head"][0]["masked"][0][1], nullptr);
  const Json placed = explain_json({"a b a", "--positions"});
  EXPECT_NE(placed["x"][0], placed["x"][2]);
  EXPECT_NEAR(placed["positions"][1][0].get<double>(), std::sin(1.0), 1e-12);
  EXPECT_EQ(explain_json({"a b a", "--heads", "3"})["dim"], 9);
}

/// The lines of tables, recognised by their labels.
Words table_lines(const std::string& out, const Words& tokens) {
  Words lines;
  std::istringstream in(out);
  for (std::string line; std::getline(in, line);) {
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (line.starts_with("   " + std::to_string(i + 1) + " " + tokens[i] + " ")) lines.push_back(line);
    }
  }
  return lines;
}

TEST(Explain, WideCharactersAreAligned) {
  for (const std::string text : {"今天天气很好", "Hello 世界 naïve", "👩‍👩‍👧 🇨🇳 👍🏽 ok",
                                 "오늘 날씨가", "e\u0301 a", "กำ ดี"}) {
    const Finished result = explain({text});
    ASSERT_EQ(result.code, 0) << result.err;
    const Words tokens = segment(text);
    const Words lines = table_lines(result.out, tokens);
    ASSERT_EQ(lines.size() % tokens.size(), 0u);
    ASSERT_GE(lines.size(), 5 * tokens.size());
    for (size_t i = 0; i < lines.size(); ++i) {
      const size_t first = i / tokens.size() * tokens.size();
      EXPECT_EQ(display_width(lines[i]), display_width(lines[first])) << lines[i] << "\n" << lines[first];
    }
  }
}

TEST(Explain, EveryStepIsExplained) {
  const std::string out = explain({"今天天气很好"}).out;
  for (const char* part : {"1. Tokens", "1:今 2:天 3:天 4:气 5:很 6:好", "2. Vectors", "Dot products", "q_i · k_j",
                           "Scaling", "√4 = 2.00", "Causal mask", "−∞", "Softmax", "Context vectors"}) {
    EXPECT_NE(out.find(part), std::string::npos) << part;
  }
  EXPECT_EQ(explain({"今天", "--no-causal"}).out.find("Causal mask"), std::string::npos);
  const std::string heads = explain({"今天", "--heads", "2", "--trainable"}).out;
  for (const char* part : {"Head 2", "Wq", "Wk", "Wv", "Wo", "Joining"}) EXPECT_NE(heads.find(part), std::string::npos);
}

TEST(Explain, HalvesAreRoundedAwayFromZero) {
  const std::string out = explain({"今天天气很好"}).out;
  EXPECT_NE(out.find("   5 很  -0.75   1.40"), std::string::npos) << out;  // -1.49 / 2, on every processor
  EXPECT_NE(out.find("0.10  1.29"), std::string::npos) << out;             // 2.57 / 2
}

TEST(Explain, ColoursOnATerminalOrOnRequest) {
  const auto has_colour = [](const Finished& result) { return result.out.find("\x1b[") != std::string::npos; };
  EXPECT_FALSE(has_colour(explain({"今天"})));
  EXPECT_NE(explain({"今天", "--color", "always"}, {.environment = {{"COLORTERM", ""}}}).out.find("48;5;"),
            std::string::npos);
  EXPECT_NE(explain({"今天", "--color", "always"}, {.environment = {{"COLORTERM", "truecolor"}}}).out.find("48;2;"),
            std::string::npos);
  const auto on_terminal = [](const Words& words, const char* term, const char* no_color) {
    return testing::run_on_terminal(command(words), {.environment = {{"TERM", term}, {"NO_COLOR", no_color}}});
  };
  EXPECT_TRUE(has_colour(on_terminal({"今天"}, "xterm-256color", "")));
  EXPECT_FALSE(has_colour(on_terminal({"今天"}, "xterm-256color", "1")));
  EXPECT_FALSE(has_colour(on_terminal({"今天"}, "dumb", "")));
  EXPECT_FALSE(has_colour(on_terminal({"今天", "--color", "never"}, "xterm-256color", "")));
}

TEST(Explain, TextCannotContainTerminalEscapes) {
  const std::string out = explain({"a \x1b[31m b\a"}).out;
  EXPECT_EQ(out.find('\x1b'), std::string::npos);
  EXPECT_EQ(out.find('\a'), std::string::npos);
  EXPECT_NE(out.find("␛"), std::string::npos);
}

TEST(Explain, ReadsStandardInput) { EXPECT_EQ(explain({"-"}, {.input = "今天\n"}).out, explain({"今天"}).out); }

TEST(Explain, LongTextsStayReadable) {
  std::string text;
  for (int i = 0; i < 30; ++i) text.append("w").append(std::to_string(i)).append(" ");
  const Finished result = explain({text});
  EXPECT_NE(result.out.find("The tables show the first 24 tokens; --limit N shows more, --json has all."),
            std::string::npos);
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(display_width(line), 100) << line;
  EXPECT_EQ(explain_json({text})["tokens"].size(), 30u);
  std::string longer;
  for (int i = 0; i < 1025; ++i) longer += "好";
  const Finished refused = explain({longer});
  EXPECT_EQ(refused.code, 1);
  EXPECT_EQ(refused.err, "attend: explain: expected at most 1024 tokens, got 1025\n");
}

TEST(Explain, ErrorsAreOneLine) {
  const std::vector<std::pair<Words, std::string>> failures{
      {{""}, "attend: explain: expected a text with words or characters, got none\n"},
      {{" \t\u3000"}, "attend: explain: expected a text with words or characters, got none\n"},
      {{"ab\xff"}, "attend: text: expected UTF-8, got an invalid sequence at byte 2\n"},
  };
  for (const auto& [words, message] : failures) {
    const Finished result = explain(words);
    EXPECT_EQ(result.code, 1);
    EXPECT_EQ(result.err, message);
    EXPECT_EQ(result.out, "");
  }
}

/// The language is that of --language, or else of the locale; numbers do not depend on it.
TEST(Explain, SpeaksChinese) {
  const auto in = [](const std::string& variable, const std::string& value, const Words& words) {
    return explain(words, {.environment = {{"LC_ALL", ""}, {"LC_MESSAGES", ""}, {"LANG", ""}, {variable, value}}}).out;
  };
  const std::string chinese = in("LANG", "C", {"--language", "zh", "天气"}), english = in("LANG", "C", {"天气"});
  EXPECT_NE(chinese.find("注意力权重"), std::string::npos);
  EXPECT_EQ(chinese.find("token"), std::string::npos) << chinese;
  EXPECT_NE(english.find("attention weights"), std::string::npos);
  EXPECT_EQ(in("LANG", "zh_CN.UTF-8", {"天气"}), chinese);
  EXPECT_EQ(in("LC_ALL", "zh_TW.UTF-8", {"天气"}), chinese);
  EXPECT_EQ(in("LANG", "zh_CN.UTF-8", {"--language", "en", "天气"}), english);
  EXPECT_EQ(explain({"--language", "fr", "x"}).code, 2);
}

}  // namespace
}  // namespace attend
