#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "attend/io/image.h"

namespace attend {

/// A picture as it was uploaded: it is decoded anew for each run, and takes no more room than its file.
struct StoredPicture {
  std::string id, name, bytes;

  /// Throws FormatError unless it is a PNG or a JPEG of up to 67 million pixels.
  Image decoded() const;
};

/// The last pictures that were uploaded.
class PictureStore {
 public:
  std::string add(StoredPicture picture);                            ///< its id
  std::shared_ptr<const StoredPicture> find(const std::string& id);  ///< null if it is not there (any more)

 private:
  std::mutex mutex_;
  int64_t next_ = 0;
  std::deque<std::shared_ptr<const StoredPicture>> pictures_;
};

}  // namespace attend
