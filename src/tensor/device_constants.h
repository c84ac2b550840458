#pragma once

#include <map>
#include <memory>
#include <vector>

#include "attend/tensor/tensor.h"

namespace attend {

/// Copies of host tensors on a GPU, found by their contents.
///
/// A captured graph cannot copy from the host. While a DeviceConstants::Scope is alive, on_device() first looks here
/// for a copy of the same bytes. Work that makes the same host tensors each time it runs, such as tables of positions,
/// then copies them the first time only. The copies live as long as this object, so that graphs may keep their
/// addresses.
class DeviceConstants {
 public:
  class Scope {
   public:
    explicit Scope(DeviceConstants& constants);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    DeviceConstants* before_;
  };

  /// The constants of the innermost scope on this thread; null if there is none.
  static DeviceConstants* current();

  /// A copy of the storage on the device; null if there is none.
  std::shared_ptr<Storage> find(const Storage& host, Device device) const;
  void add(const Storage& host, std::shared_ptr<Storage> copy);
  size_t bytes() const { return bytes_; }           ///< of all copies that were added
  void clear();                                     ///< no graph may use the copies any more
  void keep(const std::shared_ptr<Storage>& copy);  ///< keeps a copy alive that was made elsewhere

 private:
  struct Entry {
    std::vector<std::byte> bytes;
    std::shared_ptr<Storage> copy;
  };
  std::multimap<size_t, Entry> by_hash_;
  std::map<const Storage*, std::shared_ptr<Storage>> kept_;
  size_t bytes_ = 0;
};

}  // namespace attend
