#include "distributed/shared_memory.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>

#include "attend/base/error.h"
#include "distributed/patience.h"

namespace attend::distributed {
namespace {

constexpr size_t kHeaderBytes = 4096;
constexpr const char* kVariable = "ATTEND_SHARED_MEMORY";
using Word = std::atomic<uint32_t>;
static_assert(sizeof(Word) == sizeof(uint32_t) && Word::is_always_lock_free);

bool is_wanted() {
  const char* text = std::getenv(kVariable);
  return text == nullptr || std::strcmp(text, "off") != 0;
}

bool all_agree(Group& group, bool own) {
  return std::ranges::all_of(all_gather(group, std::vector<char>{static_cast<char>(own)}),
                             [](char each) { return each != 0; });
}

/// An empty span if the kernel refuses.
Bytes map(int descriptor, size_t size) {
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  return memory == MAP_FAILED ? Bytes{} : Bytes{static_cast<std::byte*>(memory), size};
}

/// Sleeps until wake_all(), for at most a second, unless the word has another value than `expected`. Processes may map
/// the word at different addresses.
void sleep_on(Word& word, uint32_t expected) {
  const timespec second{.tv_sec = 1, .tv_nsec = 0};
  syscall(SYS_futex, &word, FUTEX_WAIT, expected, &second, nullptr, 0);
}

void wake_all(Word& word) { syscall(SYS_futex, &word, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0); }

}  // namespace

/// The beginning of a member's memory. The first member's counters are those of the barrier; they start at 0.
struct SharedMemory::Header {
  uint64_t token;
  Word arrived, meetings;
};

/// What other members need to reach a member's memory. Processes in different containers may have the same number and
/// the same name of the host: the token, a random number, tells whether the right memory was found.
struct SharedMemory::Entry {
  int64_t process = 0, size = 0;
  uint64_t token = 0;
  int32_t descriptor = -1, is_made = 0;
};

bool SharedMemory::make(int64_t bytes, Entry& entry) {
  if (!is_wanted()) return false;
  const size_t size = kHeaderBytes + static_cast<size_t>(bytes);
  descriptor_ = memfd_create("attend", MFD_CLOEXEC);
  if (descriptor_ < 0 || ftruncate(descriptor_, static_cast<off_t>(size)) != 0) return false;
  if (getrandom(&entry.token, sizeof entry.token, 0) != sizeof entry.token) return false;
  const Bytes memory = map(descriptor_, size);
  if (memory.empty()) return false;
  mapped_.push_back(memory);
  reinterpret_cast<Header*>(memory.data())->token = entry.token;
  entry.size = static_cast<int64_t>(size);
  entry.descriptor = descriptor_;
  return true;
}

bool SharedMemory::reach(int rank, const Entry& entry) {
  const std::string path = "/proc/" + std::to_string(entry.process) + "/fd/" + std::to_string(entry.descriptor);
  struct stat status {};
  if (stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_size != entry.size) return false;
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return false;
  const Bytes memory = map(descriptor, static_cast<size_t>(entry.size));
  close(descriptor);
  mapped_[static_cast<size_t>(rank)] = memory;
  return !memory.empty() && header(rank).token == entry.token;
}

std::unique_ptr<SharedMemory> SharedMemory::open(Group& group, int64_t bytes) {
  const auto own = static_cast<size_t>(group.rank());
  const std::vector<Member>& members = group.members();
  if (std::ranges::any_of(members, [&](const Member& member) { return member.host != members[0].host; })) return {};
  std::unique_ptr<SharedMemory> result(new SharedMemory);
  Entry mine{.process = members[own].process};
  mine.is_made = result->make(bytes, mine) ? 1 : 0;
  const std::vector<Entry> entries = all_gather(group, std::vector<Entry>{mine});
  bool is_reached = std::ranges::all_of(entries, [](const Entry& entry) { return entry.is_made != 0; });
  if (is_reached) {
    const Bytes memory = std::exchange(result->mapped_, std::vector<Bytes>(members.size()))[0];
    result->mapped_[own] = memory;
    for (int rank = 0; rank < group.size() && is_reached; ++rank) {
      if (rank != group.rank()) is_reached = result->reach(rank, entries[static_cast<size_t>(rank)]);
    }
  }
  if (!all_agree(group, is_reached)) return {};
  close(std::exchange(result->descriptor_, -1));
  return result;
}

SharedMemory::~SharedMemory() {
  for (const Bytes& memory : mapped_) {
    if (!memory.empty()) munmap(memory.data(), memory.size());
  }
  if (descriptor_ >= 0) close(descriptor_);
}

SharedMemory::Header& SharedMemory::header(int rank) const {
  return *reinterpret_cast<Header*>(mapped_[static_cast<size_t>(rank)].data());
}

Bytes SharedMemory::area(int rank) const { return mapped_[static_cast<size_t>(rank)].subspan(kHeaderBytes); }

void SharedMemory::barrier() {
  Header& meeting = header(0);
  const uint32_t number = meeting.meetings.load();
  if (meeting.arrived.fetch_add(1) + 1 == mapped_.size()) {
    meeting.arrived.store(0);
    meeting.meetings.fetch_add(1);
    return wake_all(meeting.meetings);
  }
  const auto start = std::chrono::steady_clock::now();
  while (meeting.meetings.load() == number) {
    sleep_on(meeting.meetings, number);
    require<Error>(std::chrono::steady_clock::now() - start < std::chrono::duration<double>(patience()), kImpatience);
  }
}

}  // namespace attend::distributed
