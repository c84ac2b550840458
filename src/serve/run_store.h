#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "attend/inspect/run.h"

namespace attend {

/// A run and which model made it.
struct StoredRun {
  std::string id, model;
  std::shared_ptr<const Run> run;
  std::shared_ptr<const Tokenizer> tokenizer;
};

/// The last runs: so many, or so many bytes; the newest always.
class RunStore {
 public:
  RunStore(size_t most, int64_t most_bytes) : most_(most), most_bytes_(most_bytes) {}

  StoredRun add(StoredRun run);           ///< with its id
  StoredRun find(const std::string& id);  ///< without a run if it is not there (any more)

 private:
  struct Entry {
    StoredRun run;
    int64_t bytes = 0;
  };
  std::mutex mutex_;
  size_t most_;
  int64_t most_bytes_;
  int64_t next_ = 0;
  std::list<Entry> entries_;  // the one used last in front
};

}  // namespace attend
