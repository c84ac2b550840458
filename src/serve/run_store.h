#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "attend/inspect/run.h"

namespace attend {

/// A run and the model that made it.
struct StoredRun {
  std::string id, model;
  std::shared_ptr<const Run> run;
  std::shared_ptr<const Tokenizer> tokenizer;
};

/// Keeps the most recently used runs, up to a count and a byte budget. The newest run is always kept.
class RunStore {
 public:
  RunStore(size_t most, int64_t most_bytes) : most_(most), most_bytes_(most_bytes) {}

  StoredRun add(StoredRun run);           ///< returns the run with its id
  StoredRun find(const std::string& id);  ///< `run` is null if unknown or dropped

 private:
  struct Entry {
    StoredRun run;
    int64_t bytes = 0;
  };
  std::mutex mutex_;
  size_t most_;
  int64_t most_bytes_;
  int64_t next_ = 0;
  std::list<Entry> entries_;  // most recently used first
};

}  // namespace attend
