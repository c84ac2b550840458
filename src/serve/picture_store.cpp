#include "serve/picture_store.h"

#include <algorithm>
#include <span>

namespace attend {

Image StoredPicture::decoded() const {
  constexpr int64_t kMostUploaded = int64_t{1} << 26;  // pixels; decoding takes half a gigabyte
  return decode_image(std::as_bytes(std::span(bytes)), "the picture", kMostUploaded);
}

std::string PictureStore::add(StoredPicture picture) {
  constexpr size_t kMost = 16;
  const std::lock_guard lock(mutex_);
  picture.id = std::string("p").append(std::to_string(next_++));
  pictures_.push_back(std::make_shared<const StoredPicture>(std::move(picture)));
  if (pictures_.size() > kMost) pictures_.pop_front();
  return pictures_.back()->id;
}

std::shared_ptr<const StoredPicture> PictureStore::find(const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(pictures_, [&](const auto& one) { return one->id == id; });
  return found == pictures_.end() ? nullptr : *found;
}

}  // namespace attend
