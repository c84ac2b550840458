#include "nn/pages.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "attend/base/error.h"
#include "attend/ops/shape.h"
#include "ops/generation.h"

namespace attend {

size_t PagePool::PrefixHash::operator()(const Prefix& prefix) const {
  uint64_t hash = prefix.parent * 0x9e3779b97f4a7c15ull;
  for (const int32_t token : prefix.tokens) {
    hash = (hash ^ static_cast<uint32_t>(token)) * 0xff51afd7ed558ccdull;
    hash ^= hash >> 32;
  }
  return static_cast<size_t>(hash);
}

void PagePool::set_layout(const PageLayout& layout, int64_t layers, Device device) {
  require<ShapeError>(layers_ == 0 || (layout == layout_ && layers == layers_),
                      "PagePool: the pages of one pool must have one layout");
  layout_ = layout;
  layers_ = layers;
  device_ = device;
}

int64_t PagePool::total() const {
  return limit_ > 0 ? limit_ / std::max<int64_t>(1, page_bytes()) : std::numeric_limits<int32_t>::max();
}

std::byte* PagePool::data(int32_t page, int64_t layer) const {
  return static_cast<std::byte*>(pages_[static_cast<size_t>(page)].memory->data()) + layer * layout_.bytes();
}

int32_t PagePool::take() {
  if (free_.empty() && std::ssize(pages_) >= total() && !idle_.empty()) evict();
  if (free_.empty()) {
    require<Error>(std::ssize(pages_) < total(), "PagePool: all ", total(), " pages are in use");
    add_page();
  }
  const int32_t page = free_.back();
  free_.pop_back();
  pages_[static_cast<size_t>(page)].holders = 1;
  ++used_;
  return page;
}

int32_t PagePool::add_page() {
  const auto page = static_cast<int32_t>(pages_.size());
  free_.push_back(page);
  pages_.emplace_back();
  if (device_ == kCpu) {
    pages_.back().memory = std::make_unique<Storage>(static_cast<size_t>(page_bytes()), kCpu);
  } else {
    grow(std::ssize(pages_));
  }
  return page;
}

void PagePool::warm(int64_t pages) {
  constexpr int64_t kSystemPage = 4096;
  if (device_ != kCpu) return;
  while (std::ssize(pages_) < std::min(pages, total())) {
    auto* memory = static_cast<volatile std::byte*>(pages_[static_cast<size_t>(add_page())].memory->data());
    for (int64_t at = 0; at < page_bytes(); at += kSystemPage) memory[at] = std::byte{};
  }
}

void PagePool::hold(int32_t page) {
  Page& one = pages_[static_cast<size_t>(page)];
  if (one.holders++ > 0) return;
  idle_.erase(one.place);
  ++used_;
}

void PagePool::release(int32_t page) {
  Page& one = pages_[static_cast<size_t>(page)];
  if (--one.holders > 0) return;
  --used_;
  if (one.serial == 0) {
    free_.push_back(page);
    return;
  }
  one.place = idle_.insert(idle_.end(), page);
  if (limit_ == 0 && idle() * page_bytes() > kIdleBytes) evict();
}

void PagePool::evict() {
  const int32_t page = idle_.front();
  idle_.pop_front();
  Page& one = pages_[static_cast<size_t>(page)];
  known_.erase(one.prefix);
  one.serial = 0;
  free_.push_back(page);
}

void PagePool::reserve(int64_t pages) {
  if (device_ != kCpu) grow(std::min(pages, total()));
}

void PagePool::grow(int64_t pages) {
  constexpr int64_t kLeastPages = 64;
  const int64_t needed = pages + 1;
  if (needed <= capacity_) return;
  // With a limit, all memory is taken at once: a copy to larger memory would need both.
  const auto wanted = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max(needed, kLeastPages))));
  const int64_t capacity = limit_ > 0 ? total() + 1 : wanted, width = layout_.key_heads * layout_.key_dim;
  const Tensor memory = empty({2 * layers_, capacity * kPagePositions, width}, {layout_.dtype, device_});
  if (memory_) copy_values(memory_, slice(memory, 1, 0, memory_.dim(1)));
  memory_ = memory;
  capacity_ = capacity;
  ++version_;
}

Tensor PagePool::rows(int64_t layer, bool is_value) const {
  const int64_t rows = memory_.dim(1), width = memory_.dim(2);
  return memory_.as_strided({rows, width}, {width, 1}, (2 * layer + (is_value ? 1 : 0)) * rows * width);
}

void PagePool::flush() {
  if (copies_.empty()) return;
  const int64_t rows = memory_.dim(1), all = 2 * layers_ * rows;
  std::vector<int64_t> runs;
  int64_t longest = 0;
  for (size_t i = 0; i < copies_.size(); i += 3) {
    longest = std::max(longest, copies_[i + 2]);
    for (int64_t part = 0; part < 2 * layers_; ++part) {
      runs.insert(runs.end(), {part * rows + copies_[i], part * rows + copies_[i + 1], copies_[i + 2]});
    }
  }
  const Tensor matrix = memory_.as_strided({all, memory_.dim(2)}, {memory_.dim(2), 1}, 0);
  copy_runs(matrix, on_device(tensor(runs, {std::ssize(runs) / 3, 3}), device_), longest, matrix);
  copies_.clear();
}

void PagePool::copy(int32_t from, int32_t to, int64_t positions) {
  if (device_ != kCpu) {
    copies_.insert(copies_.end(), {first_row(from), first_row(to), positions});
    return;
  }
  for (int64_t layer = 0; layer < layers_; ++layer) {
    const std::byte* source = data(from, layer);
    std::byte* target = data(to, layer);
    const auto element = static_cast<int64_t>(size_of(layout_.dtype));
    const int64_t keys = kPagePositions * layout_.key_heads * layout_.key_dim * element;
    std::copy_n(source, keys, target);  // the keys of all positions: they lie side by side for each feature
    const int64_t row = layout_.value_dim * element;
    for (int64_t at = keys; at < layout_.bytes(); at += kPagePositions * row) {
      std::copy_n(source + at, positions * row, target + at);
    }
  }
}

int32_t PagePool::find(int32_t parent, const Tokens& tokens) {
  const auto place = known_.find({serial_of(parent), tokens});
  if (place == known_.end()) return -1;
  hold(place->second);
  ++hits_;
  return place->second;
}

int32_t PagePool::remember(int32_t page, int32_t parent, const Tokens& tokens) {
  const Prefix prefix{serial_of(parent), tokens};
  const auto [place, is_new] = known_.emplace(prefix, page);
  if (!is_new) {
    hold(place->second);
    release(page);
    return place->second;
  }
  Page& one = pages_[static_cast<size_t>(page)];
  one.prefix = prefix;
  one.serial = next_serial_++;
  return page;
}

PageTable::PageTable(const PageTable& other)
    : pool_(other.pool_),
      tracks_prefix_(other.tracks_prefix_),
      pages_(other.pages_),
      held_(other.held_),
      last_(other.last_) {
  for (const int32_t page : pages_) pool_->hold(page);
}

PageTable& PageTable::operator=(PageTable other) noexcept {
  std::swap(pool_, other.pool_);
  std::swap(tracks_prefix_, other.tracks_prefix_);
  std::swap(pages_, other.pages_);
  std::swap(held_, other.held_);
  std::swap(last_, other.last_);
  return *this;
}

PageTable::~PageTable() {
  // The last pages first: of a prefix, its end is evicted before its beginning.
  for (auto page = pages_.rbegin(); page != pages_.rend(); ++page) pool_->release(*page);
}

int64_t PageTable::reuse(std::span<const int32_t> ids) {
  require<ShapeError>(held_ == 0 && tracks_prefix_, "PageTable: only an empty row that tracks its prefix can reuse");
  while (held_ + kPagePositions < std::ssize(ids)) {
    PagePool::Tokens tokens;
    std::copy_n(ids.begin() + held_, kPagePositions, tokens.begin());
    const int32_t page = pool_->find(pages_.empty() ? -1 : pages_.back(), tokens);
    if (page < 0) break;
    pages_.push_back(page);
    held_ += kPagePositions;
  }
  return held_;
}

void PageTable::extend(int64_t count) {
  if (held_ % kPagePositions != 0 && pool_->is_shared(pages_.back())) {
    const int32_t own = pool_->take();
    pool_->copy(pages_.back(), own, held_ % kPagePositions);
    pool_->release(pages_.back());
    pages_.back() = own;
  }
  while (std::ssize(pages_) < pages_for(held_ + count)) pages_.push_back(pool_->take());
}

void PageTable::written(std::span<const int32_t> ids) {
  for (const int32_t id : ids) {
    last_[static_cast<size_t>(held_ % kPagePositions)] = id;
    if (++held_ % kPagePositions != 0 || !tracks_prefix_) continue;
    const auto full = static_cast<size_t>(held_ / kPagePositions - 1);
    pages_[full] = pool_->remember(pages_[full], full == 0 ? -1 : pages_[full - 1], last_);
  }
}

void PageTable::trim() {
  for (; std::ssize(pages_) > pages_for(held_); pages_.pop_back()) pool_->release(pages_.back());
}

std::vector<void*> PageTable::addresses(int64_t layer) const {
  std::vector<void*> result;
  result.reserve(pages_.size());
  for (const int32_t page : pages_) result.push_back(pool_->data(page, layer));
  return result;
}

}  // namespace attend
