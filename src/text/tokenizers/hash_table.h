#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace attend::text {

/// Mixes both halves of a 128-bit product: cheap, and every input bit affects every bit of the result.
inline uint64_t mixed(uint64_t a, uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

/// A hash of bytes. Short strings, such as words, take two loads and one multiplication.
inline uint64_t hash_bytes(std::string_view bytes) {
  constexpr uint64_t kA = 0x9e3779b97f4a7c15u, kB = 0xc2b2ae3d27d4eb4fu;
  const char* at = bytes.data();
  size_t left = bytes.size();
  const auto load = [](const char* from, size_t size) {
    uint64_t word = 0;
    std::memcpy(&word, from, size);
    return word;
  };
  uint64_t state = kA ^ left;
  for (; left > 16; at += 16, left -= 16) state = mixed(load(at, 8) ^ state, load(at + 8, 8) ^ kB);
  uint64_t first = 0, second = 0;
  if (left >= 8) {
    first = load(at, 8), second = load(at + left - 8, 8);
  } else if (left >= 4) {
    first = load(at, 4), second = load(at + left - 4, 4);
  } else if (left > 0) {
    first = static_cast<uint64_t>(static_cast<unsigned char>(at[0])) << 16 |
            static_cast<uint64_t>(static_cast<unsigned char>(at[left / 2])) << 8 |
            static_cast<unsigned char>(at[left - 1]);
  }
  return mixed(first ^ state, second ^ kB);
}

/// Maps pairs of numbers to 64-bit values. Open addressing in one array, at most half full.
class PairTable {
 public:
  static constexpr uint64_t kAbsent = ~uint64_t{0};  ///< returned for an absent pair; not allowed as a value

  void reserve(size_t count) {
    size_t slots = 16;
    while (slots < 2 * count) slots *= 2;
    if (slots > entries_.size()) rehash(slots);
  }
  /// Sets the value of a pair; replaces an existing value.
  void set(uint32_t left, uint32_t right, uint64_t value) {
    if (2 * (count_ + 1) > entries_.size()) rehash(entries_.empty() ? 16 : 2 * entries_.size());
    Entry& entry = entries_[slot(key_of(left, right))];
    count_ += entry.value == kAbsent;
    entry = {key_of(left, right), value};
  }
  bool empty() const { return count_ == 0; }
  uint64_t find(uint32_t left, uint32_t right) const {
    return entries_.empty() ? kAbsent : entries_[slot(key_of(left, right))].value;
  }

 private:
  struct Entry {
    uint64_t key = 0, value = kAbsent;
  };
  static uint64_t key_of(uint32_t left, uint32_t right) { return uint64_t{left} << 32 | right; }
  size_t slot(uint64_t key) const {
    size_t at = mixed(key, 0x9e3779b97f4a7c15u) & mask_;
    while (entries_[at].value != kAbsent && entries_[at].key != key) at = (at + 1) & mask_;
    return at;
  }
  void rehash(size_t slots) {
    std::vector<Entry> old(slots);
    old.swap(entries_);
    mask_ = slots - 1;
    for (const Entry& entry : old) {
      if (entry.value != kAbsent) entries_[slot(entry.key)] = entry;
    }
  }

  std::vector<Entry> entries_;
  size_t mask_ = 0, count_ = 0;
};

/// Maps strings to numbers ≥ 0. The strings are stored in one block.
class StringTable {
 public:
  static constexpr int32_t kAbsent = -1;

  /// Sets the number of a string; replaces an existing number.
  void set(std::string_view key, int32_t value) {
    if (2 * (count_ + 1) > entries_.size()) rehash(entries_.empty() ? 16 : 2 * entries_.size());
    const uint64_t hash = hash_bytes(key);
    Entry& entry = entries_[slot(key, hash)];
    if (entry.value == kAbsent) {
      ++count_;
      entry = {static_cast<uint32_t>(hash >> 32), value, static_cast<uint32_t>(pool_.size()),
               static_cast<uint32_t>(key.size())};
      pool_.insert(pool_.end(), key.begin(), key.end());
    }
    entry.value = value;
  }
  int32_t find(std::string_view key) const {
    return entries_.empty() ? kAbsent : entries_[slot(key, hash_bytes(key))].value;
  }
  size_t count() const { return count_; }
  size_t bytes() const { return pool_.size(); }

 private:
  struct Entry {
    uint32_t tag = 0;  // upper half of the hash: distinguishes nearly all strings without comparing them
    int32_t value = kAbsent;
    uint32_t begin = 0, length = 0;
  };
  std::string_view key_of(const Entry& entry) const { return {pool_.data() + entry.begin, entry.length}; }
  size_t slot(std::string_view key, uint64_t hash) const {
    const auto tag = static_cast<uint32_t>(hash >> 32);
    size_t at = hash & mask_;
    while (entries_[at].value != kAbsent && (entries_[at].tag != tag || key_of(entries_[at]) != key)) {
      at = (at + 1) & mask_;
    }
    return at;
  }
  void rehash(size_t slots) {
    std::vector<Entry> old(slots);
    old.swap(entries_);
    mask_ = slots - 1;
    for (const Entry& entry : old) {
      if (entry.value != kAbsent) entries_[slot(key_of(entry), hash_bytes(key_of(entry)))] = entry;
    }
  }

  std::vector<Entry> entries_;
  std::vector<char> pool_;
  size_t mask_ = 0, count_ = 0;
};

}  // namespace attend::text
