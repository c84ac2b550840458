#include <dlfcn.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <iterator>

#include "attend/base/error.h"
#include "base/plugin_file.h"
#include "distributed/group.h"
#include "distributed/plugin.h"
#include "distributed/single.h"

namespace attend::distributed {
namespace {

constexpr const char* kPluginFile = "libattend-mpi.so";
constexpr const char* kPluginVariable = "ATTEND_MPI_PLUGIN";

const Plugin* plugin = nullptr;
Group* joined = nullptr;
thread_local Group* of_thread = nullptr;

/// The number in the first of these environment variables that is set; `fallback` if none is.
int number_in(std::initializer_list<const char*> variables, int fallback) {
  for (const char* variable : variables) {
    const char* text = std::getenv(variable);
    if (text == nullptr) continue;
    int value = fallback;
    const char* end = text + std::strlen(text);
    if (const auto [stop, error] = std::from_chars(text, end, value); error == std::errc() && stop == end) return value;
  }
  return fallback;
}

void* open_plugin() {
  if (const char* file = std::getenv(kPluginVariable); file != nullptr && *file != '\0') {
    void* library = open_library(file);
    require<Error>(library != nullptr, kPluginVariable, ": ", library == nullptr ? dlerror() : "");
    return library;
  }
  for (const std::string& place : plugin_places(kPluginFile)) {
    std::error_code ignored;
    const bool is_file = place.find('/') != std::string::npos;
    if (is_file && !std::filesystem::exists(place, ignored)) continue;
    if (void* library = open_library(place)) return library;
    const std::string reason = dlerror();
    require<Error>(!is_file, "cannot open the MPI plug-in: ", reason);
  }
  throw_error<Error>("a launcher started ", launched_size(), " processes, but the MPI plug-in ", kPluginFile,
                     " was not found: build attend where MPI is installed (Debian: libopenmpi-dev), or set ",
                     kPluginVariable, " to its file");
}

}  // namespace

Group& world() {
  static Group& single = *single_process().release();
  if (of_thread != nullptr) return *of_thread;
  return joined != nullptr ? *joined : single;
}

int launched_size() { return number_in({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}, 1); }

int launched_rank() { return number_in({"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"}, 0); }

void join() {
  if (joined != nullptr || launched_size() <= 1) return;
  auto* entry = reinterpret_cast<PluginEntry*>(dlsym(open_plugin(), kPluginEntry));
  require<Error>(entry != nullptr, kPluginFile, " is not a plug-in of attend");
  plugin = entry(kPluginVersion);
  require<Error>(plugin != nullptr, kPluginFile,
                 " belongs to another version of attend: this one needs the plug-in that was built with it");
  joined = &plugin->open();
}

void leave() {
  if (joined == nullptr) return;
  joined = nullptr;
  plugin->close();
}

WorldScope::WorldScope(Group& group) : before_(of_thread) { of_thread = &group; }
WorldScope::~WorldScope() { of_thread = before_; }

std::vector<std::string> all_gather(Group& group, const std::string& mine) {
  std::vector<int64_t> counts = all_gather(group, std::vector<int64_t>{std::ssize(mine)});
  size_t total = 0;
  for (const int64_t count : counts) total += static_cast<size_t>(count);
  std::vector<char> all(total);
  group.start_all_gather(std::as_bytes(std::span(mine)), writable_bytes_of(all), counts)->wait();
  std::vector<std::string> texts;
  auto at = all.begin();
  for (const int64_t count : counts) {
    texts.emplace_back(at, at + count);
    at += count;
  }
  return texts;
}

std::string packed(const std::vector<std::string>& texts) {
  std::string result;
  for (const std::string& text : texts) result += std::to_string(text.size()) + ' ' + text;
  return result;
}

std::vector<std::string> unpacked(const std::string& text) {
  std::vector<std::string> result;
  for (size_t at = 0; at < text.size();) {
    const size_t space = text.find(' ', at);
    size_t length = 0;
    const auto [stop, error] = std::from_chars(text.data() + at, text.data() + std::min(space, text.size()), length);
    require<FormatError>(space != std::string::npos && error == std::errc() && length <= text.size() - space - 1,
                         "distributed: a message of texts is damaged");
    result.push_back(text.substr(space + 1, length));
    at = space + 1 + length;
  }
  return result;
}

std::vector<std::string> all_gather(Group& group, const std::vector<std::string>& mine) {
  std::vector<std::string> result;
  for (const std::string& part : all_gather(group, packed(mine))) {
    std::ranges::move(unpacked(part), std::back_inserter(result));
  }
  return result;
}

std::string broadcast(Group& group, const std::string& text, int root) {
  return all_gather(group, group.rank() == root ? text : "")[static_cast<size_t>(root)];
}

}  // namespace attend::distributed
