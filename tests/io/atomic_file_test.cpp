#include "io/atomic_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "attend/base/error.h"
#include "testing/process.h"
#include "testing/temporary_folder.h"

namespace attend {
namespace {

// As root, a rename over /dev/null would remove it for the whole machine.
TEST(AtomicFile, NeverReplacesADevice) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.file("pipe");
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  try {
    AtomicFile file(path);
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()), path + ": cannot create: a device or pipe has this name");
  }
  EXPECT_TRUE(std::filesystem::is_fifo(path));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

// The file is unnamed until it is complete, so a killed process leaves no partial file.
TEST(AtomicFile, HasNoNameBeforeItIsComplete) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.file("a.txt");
  std::ofstream(path) << "old";
  AtomicFile file(path);
  file.write("new", 3);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
  EXPECT_EQ(testing::file_text(path), "old");
  file.commit();
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
  EXPECT_EQ(testing::file_text(path), "new");
}

}  // namespace
}  // namespace attend
