// The command as a whole: help, version, and errors.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>
#include <sstream>

#include "attend/version.h"
#include "testing/process.h"

namespace attend {
namespace {

using testing::Finished;
using Words = std::vector<std::string>;

Finished attend_command(Words words, const testing::ProcessOptions& options = {}) {
  words.insert(words.begin(), ATTEND_BINARY_DIR "/attend");
  return testing::run(words, options);
}

TEST(Command, HelpAndVersion) {
  const Finished version = attend_command({"--version"});
  EXPECT_EQ(version.code, 0);
  EXPECT_EQ(version.out, "attend " ATTEND_VERSION "\n");
  EXPECT_EQ(kVersion, ATTEND_PROJECT_VERSION) << "attend/version.h and the project agree";
  EXPECT_EQ(kVersion, std::to_string(ATTEND_VERSION_MAJOR) + "." + std::to_string(ATTEND_VERSION_MINOR) + "." +
                          std::to_string(ATTEND_VERSION_PATCH));
  const Finished help = attend_command({"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_NE(help.out.find("attend explain \"今天天气很好\""), std::string::npos);
  const Finished explain = attend_command({"explain", "--help"});
  EXPECT_EQ(explain.code, 0);
  for (const char* option : {"--heads", "--dim", "--no-causal", "--trainable", "--positions", "--seed", "--json",
                             "--color", "--limit", "Examples:"}) {
    EXPECT_NE(explain.out.find(option), std::string::npos) << option;
  }
}

TEST(Command, AnUnknownInstructionSetIsOneLine) {
  for (const Words& words : {Words{"explain", "x"}, Words{"info", "no-model"}}) {
    const Finished result = attend_command(words, {.environment = {{"ATTEND_CPU", "avx3"}}});
    EXPECT_EQ(result.code, 2);
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(result.err, "attend: ATTEND_CPU: expected sse4, avx2, avx512, avx512bf16 or amx, got 'avx3'\n");
  }
  EXPECT_EQ(attend_command({"--version"}, {.environment = {{"ATTEND_CPU", ""}}}).code, 0);
}

TEST(Command, HelpIsACommandToo) {
  EXPECT_EQ(attend_command({"help"}).out, attend_command({"--help"}).out);
  EXPECT_EQ(attend_command({"help"}).code, 0);
  EXPECT_EQ(attend_command({"help", "help"}).out, attend_command({"--help"}).out);
  for (const char* command : {"explain", "fill", "translate", "bench"}) {
    const Finished help = attend_command({"help", command});
    EXPECT_EQ(help.code, 0);
    EXPECT_EQ(help.out, attend_command({command, "--help"}).out);
  }
  const Finished unknown = attend_command({"help", "explian"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_EQ(unknown.err, "attend: unknown command 'explian'; did you mean 'explain'?\n");
}

TEST(Command, HelpTextsAreUniform) {
  const std::set<std::string> types{"N",    "A",         "K",          "P",      "FILE", "FOLDER",  "MODEL",
                                    "NAME", "NAME|FILE", "NAME=VALUE", "yes|no", "LIST", "ADDRESS", "TEXT"};
  std::istringstream commands(attend_command({"--help"}).out);
  int count = 0;
  for (std::string entry; std::getline(commands, entry);) {
    if (!entry.starts_with("  ") || !std::islower(static_cast<unsigned char>(entry[2])) || entry[2] == 'a') continue;
    const std::string command = entry.substr(2, entry.find(' ', 2) - 2);
    const std::string help = attend_command({command, "--help"}).out;
    ++count;
    EXPECT_EQ(help.find("(default "), std::string::npos) << command << ": defaults are written (default: X)";
    std::istringstream lines(help);
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with("  -")) continue;
      std::istringstream words(line.substr(0, line.find("  ", 2)));
      std::string name, type;
      words >> name >> type;
      EXPECT_TRUE(type.empty() || types.contains(type)) << command << ": " << line;
    }
  }
  EXPECT_EQ(count, 20);
}

TEST(Command, FileSystemErrorsContainNoFunctionNames) {
  const testing::TemporaryFolder folder;
  std::filesystem::create_symlink("loop", folder.file("loop"));
  for (const Words& words : {Words{"info", folder.file("loop")}, Words{"inspect", folder.file("loop"), "x"},
                             Words{"generate", folder.file("loop"), "x"}}) {
    const Finished result = attend_command(words);
    EXPECT_EQ(result.code, 1);
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
    EXPECT_EQ(result.err.find("filesystem error"), std::string::npos) << result.err;
    EXPECT_NE(result.err.find(folder.file("loop")), std::string::npos) << result.err;
  }
}

TEST(Command, UsageErrorsAreOneLineAndExitTwo) {
  const std::vector<std::pair<Words, std::string>> cases{
      {{}, "attend: expected a command; see attend --help\n"},
      {{"explian", "x"}, "attend: unknown command 'explian'; did you mean 'explain'?\n"},
      {{"zzzzzzzz"}, "attend: unknown command 'zzzzzzzz'; see attend --help\n"},
      {{"explain", "x", "--dim", "5", "--heads", "2"},
       "attend: --dim 5 is not divisible by --heads 2; see attend explain --help\n"},
      {{"explain", "x", "--heads", "many"},
       "attend: --heads: expected a whole number from 1 to 64, got 'many'; see attend explain --help\n"},
      {{"explain", "x", "--seed", "-1"},
       "attend: --seed: expected a whole number from 0 to 18446744073709551615, got '-1'; see attend explain --help\n"},
      {{"explain", "x", "--color", "pink"},
       "attend: --color: expected auto, always or never, got 'pink'; see attend explain --help\n"},
      {{"--nonsense"}, "attend: unknown option '--nonsense'; see attend --help\n"},
      {{"translate", "m", "x", "--max-length", "1", "--max-length", "5"},
       "attend: --max-length is given more than once; see attend translate --help\n"},
  };
  for (const auto& [words, message] : cases) {
    const Finished result = attend_command(words);
    EXPECT_EQ(result.code, 2);
    EXPECT_EQ(result.err, message);
    EXPECT_EQ(result.out, "");
  }
  for (const Words& words : std::vector<Words>{{"explain"},
                                               {"explain", "x", "y"},
                                               {"explain", "x", "--nonsense"},
                                               {"explain", "x", "--dim"},
                                               {"explain", "x", "--dim", "0"},
                                               {"explain", "x", "--seed", "18446744073709551616"}}) {
    const Finished result = attend_command(words);
    EXPECT_EQ(result.code, 2);
    EXPECT_TRUE(result.err.starts_with("attend: ")) << result.err;
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
  }
}

TEST(Command, OutputThatCannotBeWrittenIsAnError) {
  for (const Words& words : {Words{"explain", "x"}, Words{"help"}, Words{"train", "--help"}, Words{"--version"}}) {
    const Finished result = attend_command(words, {.out_path = "/dev/full"});
    EXPECT_EQ(result.code, 1) << words[0];
    EXPECT_EQ(result.err, "attend: cannot write the output\n") << words[0];
  }
}

}  // namespace
}  // namespace attend
