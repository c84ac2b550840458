#include "io/regular_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include "attend/base/error.h"
#include "attend/io/files.h"
#include "io/mapped_file.h"
#include "testing/process.h"

namespace attend {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;

template <class Action>
std::string error_of(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(RegularFile, PipesDevicesAndFoldersAreNeverOpened) {
  const TemporaryFolder folder;
  const std::string pipe = folder.file("pipe"), device = folder.file("device");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  fs::create_symlink("/dev/zero", device);
  const std::string odd = ": expected a regular file, got a pipe or a device";
  for (const std::string& path : {pipe, device}) {
    EXPECT_EQ(error_of([&] { read_file(path); }), path + odd);
    EXPECT_EQ(error_of([&] { map_file(path); }), path + odd);
    EXPECT_EQ(error_of([&] { for_each_log_line(path, Links::follow, [](std::string_view) {}); }), path + odd);
  }
  EXPECT_EQ(error_of([&] { open_for_appending(pipe); }), pipe + odd);
  EXPECT_EQ(error_of([&] { read_file(folder.path()); }), folder.path() + ": expected a regular file, got a folder");
  EXPECT_EQ(error_of([&] { read_file(folder.file("none")); }),
            folder.file("none") + ": cannot open: No such file or directory");
}

TEST(RegularFile, LinksAreFollowedOnlyIfAllowed) {
  const TemporaryFolder folder;
  const std::string blob = folder.file("blob"), link = folder.file("link");
  std::ofstream(blob) << "text";
  fs::create_symlink(blob, link);
  const std::string refused = link + ": expected a regular file, got a symbolic link";
  EXPECT_EQ(read_file(link), "text");
  EXPECT_EQ(map_file(link).bytes.size(), 4u);
  EXPECT_EQ(error_of([&] { read_regular(link, 100, Links::refuse); }), refused);
  EXPECT_EQ(error_of([&] { map_file(link, Links::refuse); }), refused);
  EXPECT_EQ(error_of([&] { open_for_appending(link); }), refused);
  write_file(link, "new");  // replaces the link
  EXPECT_EQ(testing::file_text(blob), "text");
  EXPECT_FALSE(fs::is_symlink(link));
}

TEST(LogLines, OfAnyLengthAreReadOrSkipped) {
  const TemporaryFolder folder;
  const std::string path = folder.file("log");
  std::ofstream(path) << "one\n\n"
                      << std::string(kLongestLogLine, 'x') << '\n'
                      << std::string(kLongestLogLine + 1, 'y') << "\nlast";
  std::vector<std::string> lines;
  EXPECT_TRUE(for_each_log_line(path, Links::refuse, [&](std::string_view line) { lines.emplace_back(line); }));
  EXPECT_EQ(lines, (std::vector<std::string>{"one", "", std::string(kLongestLogLine, 'x'), "last"}));
  EXPECT_FALSE(for_each_log_line(folder.file("none"), Links::refuse, [](std::string_view) {}));
  EXPECT_FALSE(for_each_log_line(path + "/none", Links::follow, [](std::string_view) {})) << "a file is not a folder";
}

TEST(MappedFiles, AreFoundByAddress) {
  const TemporaryFolder folder;
  const std::string first = folder.file("first"), second = folder.file("second");
  std::ofstream(first) << "1111";
  std::ofstream(second) << "2222";
  const void* address = nullptr;
  {
    const MappedFile one = map_file(first), two = map_file(second);
    EXPECT_EQ(mapped_path_of(one.bytes.data()), first);
    EXPECT_EQ(mapped_path_of(&two.bytes.back()), second);
    EXPECT_EQ(mapped_path_of(&first), nullptr);
    address = one.bytes.data();
  }
  EXPECT_EQ(mapped_path_of(address), nullptr);
  const MappedFile again = map_file(second);
  EXPECT_EQ(mapped_path_of(again.bytes.data()), second);
}

}  // namespace
}  // namespace attend
