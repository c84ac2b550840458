#include "train/local_copy.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <vector>

#include "attend/base/error.h"

namespace attend {
namespace {

namespace fs = std::filesystem;
constexpr size_t kMessage = size_t{1} << 26;  // bytes

/// The regular files in a folder and below it, by their paths from there.
std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file() && !entry.is_symlink()) {
      files.push_back(fs::relative(entry.path(), folder).string());
    }
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace

LocalCopy::LocalCopy(distributed::Group& group, const std::string& folder) : path_(folder) {
  const bool sees = is_seen(group, folder);
  const std::vector<char> all = distributed::all_gather(group, std::vector<char>{sees});
  is_copied_ = std::ranges::find(all, 0) != all.end();
  if (!is_copied_) return;
  // The first process of a host that does not see the folder gets the copy for all of them.
  const auto& members = group.members();
  const std::string& host = members[static_cast<size_t>(group.rank())].host;
  int first = 0;
  while (all[static_cast<size_t>(first)] != 0 || members[static_cast<size_t>(first)].host != host) {
    if (++first == group.size()) break;
  }
  const bool receives = !sees && first == group.rank();
  if (receives) {
    scratch_ = std::make_unique<ScratchFolder>((fs::temp_directory_path() / "attend-copy").string(),
                                               "cannot copy " + folder + " to this host");
    path_ = scratch_->path();
  }
  const auto part = group.split(receives || group.rank() == 0 ? 1 : 0);
  if (receives || group.rank() == 0) copy(*part, folder);
  const std::vector<std::string> paths = distributed::all_gather(group, receives ? path_ : "");
  if (!sees) path_ = paths[static_cast<size_t>(first)];
}

/// Whether a file that the first process creates appears here.
bool LocalCopy::is_seen(distributed::Group& group, const std::string& folder) const {
  const std::string mark = distributed::broadcast(
      group, "/.seen-" + group.members()[0].host + "-" + std::to_string(group.members()[0].process));
  std::error_code error;
  if (group.rank() == 0) std::ofstream(folder + mark).put('\n');
  group.barrier();
  const bool sees = fs::exists(folder + mark, error);
  group.barrier();
  if (group.rank() == 0) fs::remove(folder + mark, error);
  return sees || group.rank() == 0;
}

/// The first process sends the files; the others write them to their paths.
void LocalCopy::copy(distributed::Group& group, const std::string& folder) {
  const bool sends = group.rank() == 0;
  const auto names =
      distributed::unpacked(distributed::broadcast(group, sends ? distributed::packed(files_in(folder)) : ""));
  for (const std::string& name : names) {
    std::ifstream in;
    std::ofstream out;
    if (sends) {
      in.open(folder + "/" + name, std::ios::binary);
    } else {
      const fs::path target = fs::path(path_) / name;
      fs::create_directories(target.parent_path());
      out.open(target, std::ios::binary);
    }
    for (bool is_last = false; !is_last;) {
      std::string block(sends ? kMessage : 0, '\0');
      if (sends) {
        in.read(block.data(), static_cast<std::streamsize>(kMessage));
        block.resize(static_cast<size_t>(in.gcount()));
      }
      block = distributed::broadcast(group, block);
      is_last = block.size() < kMessage;
      if (!sends) out.write(block.data(), static_cast<std::streamsize>(block.size()));
    }
    require<Error>(sends || out.flush().good(), path_, "/", name, ": cannot be written");
  }
}

}  // namespace attend
