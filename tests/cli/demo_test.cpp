// Runs `attend demo` with too few steps to learn anything. The demo itself measures how well it learns.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "attend/models/registry.h"
#include "train_testing.h"

namespace attend {
namespace {

using testing::file_text;
using testing::Finished;
using testing::TemporaryFolder;

Finished demo(std::vector<std::string> words) {
  words.insert(words.begin(), {ATTEND_BINARY_DIR "/attend", "demo"});
  return testing::run(words);
}

TEST(Demo, PrintsOneJsonObjectAndMayRunAgain) {
  const TemporaryFolder folder;
  testing::save(folder, "dates.tsv", "mine");
  const std::string model = folder.file("dates");
  for (int time = 0; time < 2; ++time) {
    const Finished result = demo({"--json", "-o", model, "--steps", "2"});
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(result.err, "");
    const auto json = nlohmann::json::parse(result.out);
    EXPECT_EQ(json.size(), 3u);
    EXPECT_EQ(json["model"], model);
    EXPECT_GT(json["seconds"].get<double>(), 0);
    EXPECT_GE(json["accuracy"].get<double>(), 0);
    EXPECT_LT(json["accuracy"].get<double>(), 0.5) << "after two steps";
  }
  EXPECT_EQ(load_model(model)->architecture(), "transformer");
  EXPECT_EQ(file_text(folder.file("dates.tsv")), "mine");
  EXPECT_EQ(testing::names_in(folder.path()), (std::vector<std::string>{"dates", "dates.tsv"}));
}

TEST(Demo, ShowsDatesAttentionAndWhatIsNext) {
  const TemporaryFolder folder;
  const Finished result = demo({"-o", folder.file("m"), "--steps", "2"});
  ASSERT_EQ(result.code, 0) << result.err;
  for (const char* text : {"Training a small Transformer", "Dates it was not trained on", "of 1000 correct",
                           "What it attends to", "Next steps", "attend train transformer"}) {
    EXPECT_NE(result.out.find(text), std::string::npos) << text;
  }
  const std::string page = folder.file("m") + "/inside.html";  // written only if the program was built with the page
  EXPECT_EQ(result.out.find("Open " + page + " in a browser") != std::string::npos, std::filesystem::exists(page));
  EXPECT_NE(result.out.find("The model is in " + folder.file("m") + ".\n"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("attend view " + folder.file("m") + " "), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("attend translate " + folder.file("m") + " "), std::string::npos) << result.out;
}

TEST(Demo, DoesNotOverwriteAForeignFolder) {
  const TemporaryFolder folder;
  testing::save(folder, "note", "mine");
  const Finished result = demo({"-o", folder.path()});
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.err, "attend: " + folder.path() +
                            " already exists and was not made by attend demo; choose another folder with -o\n");
  EXPECT_EQ(file_text(folder.file("note")), "mine");
}

}  // namespace
}  // namespace attend
