#include "tensor/device_constants.h"

#include <cstring>
#include <string_view>
#include <utility>

namespace attend {
namespace {

thread_local DeviceConstants* active = nullptr;

size_t hash_of(const Storage& storage) {
  return std::hash<std::string_view>{}({static_cast<const char*>(storage.data()), storage.bytes()});
}

}  // namespace

DeviceConstants::Scope::Scope(DeviceConstants& constants) : before_(std::exchange(active, &constants)) {}
DeviceConstants::Scope::~Scope() { active = before_; }

DeviceConstants* DeviceConstants::current() { return active; }

std::shared_ptr<Storage> DeviceConstants::find(const Storage& host, Device device) const {
  const auto [begin, end] = by_hash_.equal_range(hash_of(host));
  for (auto entry = begin; entry != end; ++entry) {
    const auto& [bytes, copy] = entry->second;
    if (copy->device() == device && bytes.size() == host.bytes() &&
        (bytes.empty() || std::memcmp(bytes.data(), host.data(), bytes.size()) == 0)) {
      return copy;
    }
  }
  return nullptr;
}

void DeviceConstants::add(const Storage& host, std::shared_ptr<Storage> copy) {
  bytes_ += host.bytes();
  const auto* data = static_cast<const std::byte*>(host.data());
  by_hash_.emplace(hash_of(host), Entry{{data, data + host.bytes()}, std::move(copy)});
}

void DeviceConstants::clear() {
  by_hash_.clear();
  kept_.clear();
  bytes_ = 0;
}

void DeviceConstants::keep(const std::shared_ptr<Storage>& copy) { kept_.emplace(copy.get(), copy); }

}  // namespace attend
