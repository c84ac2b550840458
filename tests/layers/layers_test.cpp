// Enforces the layers: includes follow the arrows of src/layers.txt, and no file is too long.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

constexpr size_t kLongestFile = 500;
const fs::path kRoot = ATTEND_SOURCE_DIR;

using Arrows = std::map<std::string, std::set<std::string>>;

Arrows read_arrows(std::istream& in) {
  Arrows arrows;
  for (std::string line; std::getline(in, line);) {
    const size_t colon = line.find(':');
    if (line.empty() || line[0] == '#' || colon == std::string::npos) continue;
    std::istringstream uses(line.substr(colon + 1));
    auto& targets = arrows[line.substr(0, colon)];
    for (std::string target; uses >> target;) targets.insert(target);
  }
  return arrows;
}

Arrows project_arrows() {
  std::ifstream in(kRoot / "src/layers.txt");
  return read_arrows(in);
}

/// The folder of an included header: `tensor` for "attend/tensor/tensor.h", <attend/tensor/…> and "tensor/…"; empty for
/// third-party headers.
std::string target_of(const std::string& line) {
  static const std::regex ours(R"re(^\s*#\s*include\s*(?:[<"]attend/|")([A-Za-z0-9_.-]+).*)re");
  std::smatch match;
  return std::regex_match(line, match, ours) ? match[1].str() : "";
}

struct SourceFile {
  fs::path path;  // relative to the root
  std::string folder;
  std::vector<std::string> lines;
};

std::vector<SourceFile> source_files() {
  std::vector<SourceFile> files;
  for (const char* base : {"include/attend", "src"}) {
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / base)) {
      const std::string extension = entry.path().extension();
      if (!entry.is_regular_file() || !std::set<std::string>{".h", ".cpp", ".cu", ".cuh"}.contains(extension)) continue;
      SourceFile file{
          entry.path().lexically_relative(kRoot), *entry.path().lexically_relative(kRoot / base).begin(), {}};
      std::ifstream in(entry.path());
      for (std::string line; std::getline(in, line);) file.lines.push_back(line);
      files.push_back(std::move(file));
    }
  }
  return files;
}

/// The error in one include line of a file in `folder`; empty if it is allowed.
std::string complaint(const Arrows& arrows, const std::string& folder, const std::string& line) {
  const std::string target = target_of(line);
  if (target.empty() || target == folder) return "";
  if (!arrows.contains(target)) return "'" + target + "' is no folder of src/layers.txt";
  if (!arrows.at(folder).contains(target)) return folder + " may not include " + target;
  return "";
}

TEST(Layers, IncludesFollowTheArrows) {
  const Arrows arrows = project_arrows();
  for (const SourceFile& file : source_files()) {
    if (!arrows.contains(file.folder)) continue;  // reported by the next test
    for (size_t i = 0; i < file.lines.size(); ++i) {
      EXPECT_EQ(complaint(arrows, file.folder, file.lines[i]), "") << file.path.string() << ":" << i + 1;
    }
  }
}

TEST(Layers, PublicHeadersIncludeOnlyPublicOnes) {
  static const std::regex private_header(R"re(^\s*#\s*include\s*"(?!attend/).*)re");
  for (const SourceFile& file : source_files()) {
    if (*file.path.begin() != "include") continue;
    for (size_t i = 0; i < file.lines.size(); ++i) {
      EXPECT_FALSE(std::regex_match(file.lines[i], private_header)) << file.path.string() << ":" << i + 1;
    }
  }
}

/// The headers under src/ that src/layers.txt shares with other folders.
std::set<std::string> shared_headers() {
  std::set<std::string> headers;
  std::ifstream in(kRoot / "src/layers.txt");
  for (std::string word, header; in >> word;) {
    if (word == "shared" && in >> header && header.find('/') != std::string::npos) headers.insert(header);
  }
  return headers;
}

TEST(Layers, HeadersUnderSrcArePrivateUnlessShared) {
  static const std::regex include(R"re(^\s*#\s*include\s*"((?!attend/)([A-Za-z0-9_.-]+)/[^"]+)".*)re");
  const std::set<std::string> shared = shared_headers();
  std::set<std::string> used;
  for (const SourceFile& file : source_files()) {
    for (size_t i = 0; i < file.lines.size(); ++i) {
      std::smatch match;
      if (!std::regex_match(file.lines[i], match, include) || match[2] == file.folder) continue;
      used.insert(match[1]);
      EXPECT_TRUE(shared.contains(match[1])) << file.path.string() << ":" << i + 1 << ": " << match[1]
                                             << " is private to " << match[2] << "; src/layers.txt does not share it";
    }
  }
  EXPECT_EQ(used, shared) << "src/layers.txt shares a header that no other folder uses";
}

TEST(Layers, EveryFolderIsListed) {
  const Arrows arrows = project_arrows();
  for (const SourceFile& file : source_files()) {
    EXPECT_TRUE(arrows.contains(file.folder)) << file.path.string() << " is in a folder src/layers.txt does not list";
  }
}

TEST(Layers, ArrowsPointToFoldersListedBefore) {
  std::ifstream in(kRoot / "src/layers.txt");
  std::set<std::string> before;
  for (std::string line; std::getline(in, line);) {
    std::istringstream one(line);
    for (const auto& [folder, targets] : read_arrows(one)) {
      for (const std::string& target : targets) {
        EXPECT_TRUE(before.contains(target))
            << folder << ": " << target << " comes later: the arrows could form a circle";
      }
      before.insert(folder);
    }
  }
  EXPECT_FALSE(before.empty());
}

TEST(Layers, NoFileIsTooLong) {
  for (const SourceFile& file : source_files()) {
    EXPECT_LE(file.lines.size(), kLongestFile) << file.path.string();
  }
}

TEST(Layers, TheCheckItselfFindsViolations) {
  std::istringstream text("base:\nops: base tensor\ntensor: base\n");
  const Arrows arrows = read_arrows(text);
  EXPECT_EQ(complaint(arrows, "ops", "#include \"attend/base/error.h\""), "");
  EXPECT_EQ(complaint(arrows, "ops", "#include \"ops/check.h\""), "");
  EXPECT_EQ(complaint(arrows, "ops", "#include <vector>"), "");
  EXPECT_EQ(complaint(arrows, "ops", "#include <hwy/highway.h>"), "");
  EXPECT_EQ(complaint(arrows, "tensor", "#include <attend/ops/softmax.h>"), "tensor may not include ops");
  EXPECT_EQ(complaint(arrows, "base", "  #  include \"tensor/private.h\""), "base may not include tensor");
  EXPECT_EQ(complaint(arrows, "base", "#include \"util/x.h\""), "'util' is no folder of src/layers.txt");
}

}  // namespace
