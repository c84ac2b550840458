#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "attend/io/image.h"

namespace attend {

/// An uploaded picture. It is stored as its file's bytes and decoded again for each run, to save memory.
struct StoredPicture {
  std::string id, name, bytes;

  /// Throws FormatError unless the bytes are a PNG or JPEG of at most 67 million pixels.
  Image decoded() const;
};

/// Keeps the most recent uploads.
class PictureStore {
 public:
  std::string add(StoredPicture picture);                            ///< returns its id
  std::shared_ptr<const StoredPicture> find(const std::string& id);  ///< null if unknown or dropped

 private:
  std::mutex mutex_;
  int64_t next_ = 0;
  std::deque<std::shared_ptr<const StoredPicture>> pictures_;
};

}  // namespace attend
