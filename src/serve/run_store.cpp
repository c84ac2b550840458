#include "serve/run_store.h"

#include <algorithm>

namespace attend {

StoredRun RunStore::add(StoredRun run) {
  const int64_t bytes = run.run->bytes();
  const std::lock_guard lock(mutex_);
  run.id = std::string("r").append(std::to_string(next_++));
  entries_.push_front({run, bytes});
  int64_t sum = 0;
  size_t count = 0;
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    sum += entry->bytes;
    ++count;
    const bool is_too_much = count > 1 && (count > most_ || sum > most_bytes_);
    entry = is_too_much ? entries_.erase(entry) : std::next(entry);
  }
  return run;
}

StoredRun RunStore::find(const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(entries_, [&](const Entry& entry) { return entry.run.id == id; });
  if (found == entries_.end()) return {};
  entries_.splice(entries_.begin(), entries_, found);
  return found->run;
}

}  // namespace attend
