// Behaviour shared by all commands that read many lines: input and output, progress, and what Ctrl-C keeps.
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "attend/models/registry.h"
#include "attend/text/tokenizer.h"
#include "testing/process.h"

namespace attend {
namespace {

namespace fs = std::filesystem;
using testing::file_text;
using testing::Finished;
using testing::lines_of;
using testing::ProcessOptions;
using testing::TemporaryFolder;
using Json = nlohmann::json;
using Words = std::vector<std::string>;

/// A command that runs while the test observes it. Its standard input is a pipe, its standard error a terminal or a
/// file.
class Running {
 public:
  Running(Words words, const TemporaryFolder& folder, bool on_terminal = false) : folder_(folder) {
    words.insert(words.begin(), ATTEND_BINARY_DIR "/attend");
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return;
    input_ = ends[1];
    if (on_terminal) terminal_ = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (on_terminal && (grantpt(terminal_) != 0 || unlockpt(terminal_) != 0)) return;
    const std::string errors = on_terminal ? ptsname(terminal_) : folder.file("err");
    child_ = fork();
    if (child_ == 0) {
      dup2(ends[0], STDIN_FILENO);
      dup2(open(folder_.file("out").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDOUT_FILENO);
      dup2(open(errors.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOCTTY, 0600), STDERR_FILENO);
      testing::execute(words, {});
    }
    close(ends[0]);
  }
  ~Running() {
    if (input_ >= 0) close(input_);
    if (terminal_ >= 0) close(terminal_);
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  void type(const std::string& text) const { EXPECT_EQ(write(input_, text.data(), text.size()), std::ssize(text)); }

  /// The beginning of the unnamed output file; empty before it is opened. Reads only a part: the file may grow faster
  /// than it can be read.
  std::optional<std::string> pending() const {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator("/proc/" + std::to_string(child_) + "/fd", error)) {
      const std::string name = fs::read_symlink(entry.path(), error);
      const bool is_pending = name.find(" (deleted)") != std::string::npos;
      if (error || !name.starts_with(folder_.path() + "/") || !is_pending) continue;
      std::string text(1 << 16, '\0');
      std::ifstream file(entry.path(), std::ios::binary);
      file.read(text.data(), std::ssize(text));
      text.resize(static_cast<size_t>(file.gcount()));
      return text;
    }
    return std::nullopt;
  }

  /// Waits until the pending file's contents satisfy a condition.
  void wait_for(const std::function<bool(const std::string&)>& is_reached) const {
    for (int i = 0; i < 6000; ++i) {
      const auto text = pending();
      if (text && is_reached(*text)) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ADD_FAILURE() << "it never came so far";
  }

  /// Reads the terminal until `wanted` appears.
  std::string wait_for_terminal(const std::string& wanted) const {
    std::string shown;
    char buffer[4096];
    pollfd waiting{.fd = terminal_, .events = POLLIN, .revents = 0};
    while (shown.find(wanted) == std::string::npos && poll(&waiting, 1, 60000) == 1) {
      const ssize_t count = read(terminal_, buffer, sizeof buffer);
      if (count <= 0) break;
      shown.append(buffer, static_cast<size_t>(count));
    }
    return shown;
  }

  Finished stop(int signal = SIGINT) const {
    kill(child_, signal);
    const int code = testing::exit_code(child_);
    return {code, file_text(folder_.file("out")), terminal_ < 0 ? file_text(folder_.file("err")) : ""};
  }

 private:
  const TemporaryFolder& folder_;
  pid_t child_ = -1;
  int input_ = -1, terminal_ = -1;
};

class LineWork : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    models_ = std::make_unique<TemporaryFolder>();
    make("pairs", "transformer", {{"ffn_dim", "32"}, {"encoder_layers", "1"}, {"decoder_layers", "1"}});
    make("text", "gpt", {{"layers", "1"}});
    make("labels", "encoder", {{"layers", "1"}, {"labels", R"(["good", "bad"])"}});
    make("words", "encoder", {{"layers", "1"}});
  }
  static void TearDownTestSuite() { models_.reset(); }

  static void make(const std::string& name, const std::string& architecture,
                   std::map<std::string, std::string> settings) {
    size_t next = 0;
    const Words corpus{"the quick brown fox jumps over the lazy dog.", "今天天气很好，我们去公园。", "0123456789"};
    const auto tokenizer = train_tokenizer(
        [&]() -> std::optional<std::string> {
          return next < corpus.size() ? std::optional(corpus[next++]) : std::nullopt;
        },
        {.kind = TokenizerKind::characters, .vocabulary = 200, .min_count = 1});
    settings.merge(std::map<std::string, std::string>{
        {"vocab_size", std::to_string(tokenizer->size())}, {"dim", "16"}, {"heads", "2"}, {"context", "48"}});
    Rng rng{3};
    save_model(*create_model(with_settings(preset_config(architecture, "tiny"), settings), rng), path(name));
    tokenizer->save(path(name));
  }

  static std::string path(const std::string& name) { return models_->file(name); }
  static Finished attend(Words words, const ProcessOptions& options = {}) {
    words.insert(words.begin(), ATTEND_BINARY_DIR "/attend");
    return testing::run(words, options);
  }
  static std::string out(const Words& words, const ProcessOptions& options = {}) {
    const Finished result = attend(words, options);
    EXPECT_EQ(result.code, 0) << result.err;
    return result.out;
  }
  std::string write(const std::string& name, const std::string& content) const {
    std::ofstream(folder_.file(name), std::ios::binary) << content;
    return folder_.file(name);
  }
  static std::string repeated(const std::string& line, int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += line + "\n";
    return text;
  }

  static std::unique_ptr<TemporaryFolder> models_;
  TemporaryFolder folder_;
};
std::unique_ptr<TemporaryFolder> LineWork::models_;

TEST_F(LineWork, CtrlCKeepsTheFinishedLinesOfAPipe) {
  for (const auto& [signal, code] : {std::pair{SIGINT, 130}, std::pair{SIGTERM, 143}}) {
    const Running running({"translate", path("pairs"), "--unbuffered", "-o", folder_.file("kept")}, folder_);
    running.type("the fox\ndog\n今天\n");
    running.wait_for([](const std::string& text) { return lines_of(text).size() == 3; });
    const Finished stopped = running.stop(signal);
    EXPECT_EQ(stopped.code, code);
    EXPECT_EQ(stopped.err, "attend: stopped after 3 lines; their results are in " + folder_.file("kept") + "\n");
    EXPECT_EQ(file_text(folder_.file("kept")), out({"translate", path("pairs"), "the fox", "dog", "今天"}));
  }
}

TEST_F(LineWork, CtrlCKeepsTheFinishedLinesOfAFile) {
  const int count = 100000;
  const std::vector<std::tuple<std::string, std::string, std::string>> commands{
      {"translate", "pairs", "the fox"}, {"classify", "labels", "the fox"}, {"embed", "labels", "the fox"},
      {"score", "pairs", "the\tfox"},    {"score", "text", "the fox"},      {"fill", "words", "the <mask>"},
      {"generate", "text", "the fox"}};
  for (const auto& [command, model, line] : commands) {
    const std::string input = write("lines", repeated(line, count)), kept = folder_.file("kept");
    fs::remove(kept);
    Words words{command, path(model), "-i", input, "-o", kept};
    if (command == "generate") words.insert(words.end(), {"--tokens", "4", "--greedy", "--json"});
    const Running running(words, folder_);
    running.wait_for([](const std::string& text) { return !text.empty(); });
    const Finished stopped = running.stop();
    EXPECT_EQ(stopped.code, 130) << stopped.err;
    const auto results = lines_of(file_text(kept));
    ASSERT_GE(results.size(), 32u) << command;
    EXPECT_TRUE(std::ranges::all_of(results, [&](const std::string& one) { return one == results[0]; })) << command;
    EXPECT_NE(results[0], "");
    ASSERT_EQ(lines_of(stopped.err).size(), 1u) << stopped.err;
    const std::string unit = command == "generate" ? "prompts" : "lines";
    EXPECT_NE(stopped.err.find(" of 100,000 " + unit + "; their results are in " + kept), std::string::npos)
        << stopped.err;
    const std::string next = "; to continue: tail -n +" + std::to_string(results.size() + 1) + " " + input +
                             " | attend " + command + " " + path(model) + " … >> " + kept + "\n";
    if (command != "generate") {
      EXPECT_TRUE(stopped.err.ends_with(next)) << stopped.err << next;
    }
  }
}

TEST_F(LineWork, CtrlCKeepsTheFinishedRowsOfSimilarities) {
  const std::string input = write("lines", repeated("the fox", 4000)), kept = folder_.file("kept");
  const Running running({"embed", path("labels"), "-i", input, "-o", kept, "--similarity"}, folder_);
  running.wait_for([](const std::string& text) { return !text.empty(); });
  const Finished stopped = running.stop();
  EXPECT_EQ(stopped.code, 130) << stopped.err;
  const auto rows = lines_of(file_text(kept));
  ASSERT_GE(rows.size(), 1u);
  EXPECT_EQ(std::ranges::count(rows[0], '\t'), 4000);
  EXPECT_NE(stopped.err.find(" of 4,000 lines; their results are in " + kept + "\n"), std::string::npos) << stopped.err;
}

TEST_F(LineWork, CtrlCBeforeTheFirstResultLeavesTheFileAsItWas) {
  const std::string kept = write("kept", "as before\n");
  const Running running({"classify", path("labels"), "--unbuffered", "-o", kept}, folder_);
  running.wait_for([](const std::string&) { return true; });
  const Finished stopped = running.stop();
  EXPECT_EQ(stopped.code, 130);
  EXPECT_EQ(stopped.err, "attend: stopped before the first result; " + kept + " was not written\n");
  EXPECT_EQ(file_text(kept), "as before\n");
}

TEST_F(LineWork, CtrlCKeepsTheBeginningOfASingleText) {
  const std::string kept = folder_.file("kept");
  const Running running({"generate", path("text"), "the fox", "--tokens", "100000000", "--past-end", "-o", kept},
                        folder_);
  running.wait_for([](const std::string& text) { return text.size() > 20; });
  const Finished stopped = running.stop();
  EXPECT_EQ(stopped.code, 130);
  EXPECT_EQ(stopped.err, "attend: stopped; the text so far is in " + kept + "\n");
  EXPECT_TRUE(file_text(kept).starts_with("the fox"));
  EXPECT_TRUE(file_text(kept).ends_with("\n"));
}

TEST_F(LineWork, CtrlCKeepsTheTranslationsOfEvaluate) {
  const std::string pairs = write("pairs.tsv", repeated("the fox\tthe dog", 50000)), kept = folder_.file("kept");
  const Running running({"evaluate", path("pairs"), pairs, "-o", kept}, folder_);
  running.wait_for([](const std::string& text) { return !text.empty(); });
  const Finished stopped = running.stop();
  EXPECT_EQ(stopped.code, 130);
  const auto results = lines_of(file_text(kept));
  ASSERT_GE(results.size(), 1u);
  EXPECT_NE(stopped.err.find(" of 50,000 sentences; no results, but the translations so far are in " + kept),
            std::string::npos)
      << stopped.err;
}

TEST_F(LineWork, ATerminalShowsRateAndTimeLeft) {
  const std::string input = write("lines", repeated("the fox", 200000));
  const Running running({"classify", path("labels"), "-i", input, "-o", folder_.file("kept")}, folder_, true);
  const std::string shown = running.wait_for_terminal(" left");
  EXPECT_NE(shown.find(" of 200,000 lines, "), std::string::npos) << shown;
  EXPECT_NE(shown.find(" lines/s, "), std::string::npos) << shown;
  EXPECT_EQ(running.stop().code, 130);
}

TEST_F(LineWork, AMinusIsTheStandardInput) {
  const std::string input = "the fox\n今天\n";
  for (const Words& words : std::vector<Words>{{"translate", path("pairs")},
                                               {"classify", path("labels")},
                                               {"embed", path("labels")},
                                               {"score", path("text")},
                                               {"generate", path("text"), "--greedy"},
                                               {"tokenize", path("text")}}) {
    Words with = words, given = words;
    with.emplace_back("-");
    given.insert(given.end(), {"the fox", "今天"});
    EXPECT_EQ(out(with, {.input = input}), out(given)) << words[0];
    EXPECT_EQ(out(words, {.input = input}), out(given)) << words[0];
  }
  EXPECT_EQ(out({"explain", "-"}, {.input = "今天\n"}), out({"explain", "今天"}));
  const Finished mixed = attend({"translate", path("pairs"), "fox", "-"});
  EXPECT_EQ(mixed.code, 2);
  EXPECT_EQ(mixed.err,
            "attend: - is standard input and cannot be combined with other texts; see attend translate --help\n");
}

TEST_F(LineWork, ATextThatNamesAFileIsPointedOut) {
  const std::string file = write("a file", "the fox\n");
  for (const Words& words :
       std::vector<Words>{{"translate", path("pairs"), file}, {"generate", path("text"), file, "--tokens", "3"}}) {
    const Finished result = attend(words);
    EXPECT_EQ(result.code, 0);
    EXPECT_TRUE(result.err.starts_with("attend: '" + file +
                                       "' is used as text, but a file of that name exists; to read "
                                       "the file: -i '" +
                                       file + "'\n"))
        << result.err;
  }
  EXPECT_EQ(attend({"translate", path("pairs"), "-i", file}).err, "");
  EXPECT_EQ(attend({"translate", path("pairs"), "the fox"}).err, "");
}

TEST_F(LineWork, OutputToALinkIsWrittenToItsTarget) {
  const std::string expected = out({"translate", path("pairs"), "fox"});
  fs::create_directory(folder_.file("there"));
  fs::create_symlink("there/file", folder_.file("link"));  // its target does not exist yet
  fs::create_symlink("link", folder_.file("link2"));
  for (const char* name : {"link", "link2"}) {
    EXPECT_EQ(out({"translate", path("pairs"), "fox", "-o", folder_.file(name)}), "");
    EXPECT_TRUE(fs::is_symlink(folder_.file(name)));
    EXPECT_EQ(file_text(folder_.file("there/file")), expected);
    fs::remove(folder_.file("there/file"));
  }
  fs::create_symlink("loop", folder_.file("loop"));
  const Finished loop = attend({"translate", path("pairs"), "fox", "-o", folder_.file("loop")});
  EXPECT_EQ(loop.code, 1);
  EXPECT_EQ(loop.err, "attend: " + folder_.file("loop") + ": cannot write: the symbolic links form a loop\n");
}

TEST_F(LineWork, GenerateTakesManyPrompts) {
  const Words base{"generate", path("text"), "--greedy", "--tokens", "6"};
  const auto with = [&](const Words& more) {
    Words words = base;
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const std::string first = out(with({"the fox"})), second = out(with({"今天"}));
  const std::string both = first + "---\n" + second, input = "the fox\n今天\n";
  EXPECT_EQ(out(with({"the fox", "今天"})), both);
  EXPECT_EQ(out(base, {.input = input}), both);
  EXPECT_EQ(out(base, {.input = "the fox\n"}), first);
  EXPECT_EQ(out(with({"-i", write("prompts", input)})), both);
  EXPECT_EQ(out(with({"-i", folder_.file("prompts"), "-o", folder_.file("texts")})), "");
  EXPECT_EQ(file_text(folder_.file("texts")), both);
  EXPECT_EQ(out(with({"-i", write("empty", "")})), "");
  EXPECT_EQ(out(base), out(with({""})));  // no prompt: starts a new text
  const auto lines = lines_of(out(with({"--json", "-i", folder_.file("prompts")})));
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(Json::parse(lines[1])["prompt"], "今天");
  EXPECT_EQ("今天" + Json::parse(lines[1])["text"].get<std::string>() + "\n", second);
  const Json whole = Json::parse(out(with({"--json", "--whole-text"}), {.input = input}));
  EXPECT_EQ(whole["prompt"], "the fox\n今天");
  std::string many;
  for (int i = 0; i < 70; ++i) many += "the fox\n";
  const auto all = lines_of(out({"generate", path("text"), "--tokens", "6", "--json", "--seed", "4"}, {.input = many}));
  ASSERT_EQ(all.size(), 70u);
  EXPECT_NE(all[1], all[40]) << "each prompt has draws of its own";
}

TEST_F(LineWork, FillPredictsMaskedWords) {
  const auto lines =
      lines_of(out({"fill", path("words"), "--top", "3"}, {.input = "the <mask>ox\n\n今<mask>天<mask>\n"}));
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(std::ranges::count(lines[0], '\t'), 1);
  EXPECT_EQ(std::ranges::count(lines[0], '='), 3) << lines[0];
  EXPECT_EQ(lines[1], "");
  EXPECT_EQ(std::ranges::count(lines[2], '\t'), 2);
  const Json json = Json::parse(out({"fill", path("words"), "今<mask>天", "--json"}));
  ASSERT_EQ(json["masks"].size(), 1u);
  ASSERT_EQ(json["masks"][0]["candidates"].size(), 5u);
  const Json best = json["masks"][0]["candidates"][0];
  EXPECT_EQ(json["filled"], "今" + best["word"].get<std::string>() + "天");
  EXPECT_GE(best["probability"], json["masks"][0]["candidates"][1]["probability"]);
  const auto fails = [](const Words& words) {
    const Finished result = attend(words);
    EXPECT_EQ(result.code, 1);
    return result.err;
  };
  const std::string words = path("words"), training =
                                               "; to classify texts, first train it on labelled texts: attend "
                                               "train encoder LABELLED.tsv --from " +
                                               words + "\n";
  EXPECT_EQ(fails({"fill", words, "a <mask>", "the [MASK] fox"}),
            "attend: line 2: expected <mask>, this model's mask token, in place of each missing word; the line has "
            "none\n");
  EXPECT_EQ(fails({"fill", words, std::string(60, 'a') + "<mask>"}),
            "attend: line 1: <mask> is beyond the model's maximum of 48 tokens\n");
  for (const char* command : {"generate", "classify", "translate", "score"}) {
    EXPECT_EQ(fails({command, words, "x"}),
              "attend: " + words + ": this is a masked-word model: use attend fill" + training);
  }
  EXPECT_EQ(fails({"fill", path("labels"), "<mask>"}),
            "attend: " + path("labels") + ": this is a text classifier: use attend classify\n");
  EXPECT_EQ(fails({"fill", path("text"), "<mask>"}),
            "attend: " + path("text") + ": this is a language model: use attend generate\n");
}

}  // namespace
}  // namespace attend
