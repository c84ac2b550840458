// The ids of a training folder must come from its tokenizer and its text.
#include "train/fingerprint.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "attend/base/error.h"
#include "attend/io/files.h"
#include "train_testing.h"

namespace attend {
namespace {

namespace fs = std::filesystem;
using testing::save;
using testing::TemporaryFolder;

/// Prepares a dataset with training and validation text in a folder of this name.
std::string prepared(const TemporaryFolder& folder, const std::string& name, const std::string& text,
                     const std::string& tokenizer) {
  DatasetOptions options;
  options.corpus = {.kind = CorpusKind::tsv, .files = {save(folder, name + ".tsv", text)}};
  options.validation = options.corpus;
  options.tokenizer = tokenizer;
  prepare_dataset(options, folder.file(name));
  return folder.file(name);
}

std::string complaint(const std::string& folder) {
  try {
    open_dataset(folder);
    return "nothing";
  } catch (const FormatError& error) {
    return error.what();
  }
}

void replace(const std::string& file, const std::string& from) {
  fs::copy_file(from, file, fs::copy_options::overwrite_existing);
}

void expect_mismatch(const std::string& said, const std::string& file) {
  EXPECT_TRUE(said.starts_with(file + ": made from another text or by another tokenizer: expected 'tokenizer "))
      << said;
  EXPECT_NE(said.find("train again from the corpus"), std::string::npos) << said;
}

TEST(Fingerprint, OfAnotherTextOfTheSameSize) {
  const TemporaryFolder folder;
  const std::string text = "ab\tba\nbc\tcb\n", other = "ab\tba\ncb\tbc\n";
  ASSERT_EQ(text.size(), other.size());
  const std::string a = prepared(folder, "a", text, "char"), b = prepared(folder, "b", other, a);
  ASSERT_EQ(testing::file_text(a + "/tokenizer.json"), testing::file_text(b + "/tokenizer.json"));
  for (const std::string name : {"/cache/training.ids", "/cache/validation.ids"}) {
    const std::string before = testing::file_text(a + name);
    EXPECT_EQ(complaint(a), "nothing");
    replace(a + name, b + name);
    expect_mismatch(complaint(a), a + name);
    write_file(a + name, before);
  }
  EXPECT_EQ(complaint(a), "nothing");
}

TEST(Fingerprint, OfAnotherTokenizer) {
  const TemporaryFolder folder;
  const std::string text = "ab\tba\nbc\tcb\n";
  const std::string a = prepared(folder, "a", text, "char"), b = prepared(folder, "b", "da\tad\n" + text, "char");
  const std::string before = testing::file_text(a + "/tokenizer.json");
  ASSERT_NE(before, testing::file_text(b + "/tokenizer.json"));
  replace(a + "/tokenizer.json", b + "/tokenizer.json");
  expect_mismatch(complaint(a), a + "/cache/training.ids");
  write_file(a + "/tokenizer.json", before);
  EXPECT_EQ(complaint(a), "nothing");
}

/// Version 0.1 wrote the same fingerprint into every cache.
TEST(Fingerprint, OfAFolderOfVersion01) {
  const TemporaryFolder folder;
  const std::string a = prepared(folder, "a", "ab\tba\nbc\tcb\n", "char");
  for (const std::string name : {"/cache/training.ids", "/cache/validation.ids"}) {
    const TokenCache cache = TokenCache::open(a + name);
    TokenCacheWriter writer(a + name, cache.columns(), "attend");
    for (int64_t i = 0; i < cache.size(); ++i) writer.add({cache.sequence(i, 0), cache.sequence(i, 1)});
    writer.finish();
  }
  expect_mismatch(complaint(a), a + "/cache/training.ids");
  auto plan = nlohmann::json::parse(testing::file_text(a + "/cache/dataset.json"));
  for (const char* key : {"training_text", "validation_text"}) plan.erase(key);
  write_file(a + "/cache/dataset.json", plan.dump());
  EXPECT_EQ(complaint(a), "nothing");
}

TEST(Fingerprint, KnowsWhereTextsEnd) {
  const auto sum = [](std::initializer_list<const char*> texts) {
    TextSum result;
    for (const char* text : texts) result.add(text);
    return result.hex();
  };
  EXPECT_EQ(sum({"a", "bc"}), sum({"a", "bc"}));
  EXPECT_NE(sum({"a", "bc"}), sum({"ab", "c"}));
  EXPECT_NE(sum({"a", "bc"}), sum({"bc", "a"}));
  EXPECT_EQ(sum({}).size(), 16u);
}

}  // namespace
}  // namespace attend
