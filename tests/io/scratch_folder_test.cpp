// Leftovers of killed processes can be told from the user's folders, whatever their names.
#include "io/scratch_folder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "testing/process.h"

namespace attend {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;

TEST(ScratchFolder, IsRemovedOnDestructionUnlessReleased) {
  const TemporaryFolder folder;
  const std::string prefix = folder.file("m.new"), name = prefix + "-" + std::to_string(getpid());
  {
    const ScratchFolder scratch(prefix, "x");
    EXPECT_EQ(scratch.path(), name);
    std::ofstream(scratch.path() + "/file") << "half";
  }
  EXPECT_FALSE(fs::exists(name));
  {
    ScratchFolder scratch(prefix, "x");
    scratch.release();
  }
  EXPECT_TRUE(fs::exists(name));
}

TEST(ScratchFolder, NeverTakesAnExistingName) {
  const TemporaryFolder folder;
  const std::string prefix = folder.file("m.new"), name = prefix + "-" + std::to_string(getpid());
  fs::create_directory(name);
  std::ofstream(name + "/note") << "mine";
  {
    const ScratchFolder scratch(prefix, "x");
    EXPECT_EQ(scratch.path(), name + "-1");
  }
  EXPECT_EQ(testing::file_text(name + "/note"), "mine");
}

TEST(Abandoned, IsAFolderThatWasNotMarkedYetOrHalfRemoved) {
  const TemporaryFolder folder;
  const std::string left = folder.file(std::string(kScratchPrefix) + "1234-0");
  fs::create_directory(left);
  std::ofstream(left + "/half") << "removed";
  {
    const FolderLock held(left);
    remove_if_abandoned(left);
    EXPECT_TRUE(fs::exists(left)) << "another process is at work";
  }
  remove_if_abandoned(left);
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(Abandoned, IsOnlyAFolderMarkedForItsOwnName) {
  const TemporaryFolder folder;
  const auto made = [&](const std::string& name) {
    fs::create_directory(folder.file(name));
    return folder.file(name);
  };
  const std::string plain = made("m.old-20240101"), copied = made("m.old-2"), forged = made("m.old-3"),
                    left = made("m.old-4"), link = folder.file("m.old-5");
  ASSERT_TRUE(add_mark(copied, "m.new-99"));  // a copy of a marked folder
  fs::create_symlink(left, forged + "/.attend-temporary");
  ASSERT_TRUE(add_mark(left, "m.old-4"));
  fs::create_directory_symlink(left, link);
  for (const std::string& one : {plain, copied, forged, link}) {
    remove_if_abandoned(one);
    EXPECT_TRUE(fs::exists(one)) << one;
  }
  {
    const FolderLock held(left);
    ASSERT_TRUE(held.is_held());
    remove_if_abandoned(left);
    EXPECT_TRUE(fs::exists(left)) << "somebody works in it";
  }
  remove_if_abandoned(left);
  EXPECT_FALSE(fs::exists(left));
}

TEST(Mark, NeverReplacesAnotherFile) {
  const TemporaryFolder folder;
  const std::string path = folder.file(".attend-temporary");
  std::ofstream(path) << "mine";
  EXPECT_FALSE(add_mark(folder.path(), "x"));
  remove_mark(folder.path());
  EXPECT_EQ(testing::file_text(path), "mine");
  fs::remove(path);
  EXPECT_TRUE(add_mark(folder.path(), "x"));
  EXPECT_TRUE(add_mark(folder.path(), "y")) << "its own is replaced";
  remove_mark(folder.path());
  EXPECT_FALSE(fs::exists(path));
}

TEST(FolderLock, IsExclusiveAndFollowsTheFolder) {
  const TemporaryFolder folder;
  fs::create_directory(folder.file("a"));
  const FolderLock lock(folder.file("a"));
  EXPECT_TRUE(lock.is_held());
  fs::rename(folder.file("a"), folder.file("b"));
  EXPECT_TRUE(FolderLock(folder.file("b")).is_busy());
  const FolderLock none(folder.file("a"));
  EXPECT_FALSE(none.is_held() || none.is_busy());
}

}  // namespace
}  // namespace attend
