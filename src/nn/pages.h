#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "attend/tensor/creation.h"
#include "ops/paged_attention.h"

// Memory of a key-value cache: pages that rows share by reference count.
namespace attend {

/// Pages of kPagePositions positions of all layers, up to a limit. A page that no row holds is free or, if it is known
/// as part of a prefix, idle: it is kept until its memory is needed, and evicted least recently used first.
class PagePool {
 public:
  /// `limit` in bytes. 0: no limit for pages that rows hold, and at most kIdleBytes of idle pages.
  explicit PagePool(int64_t limit) : limit_(limit) {}
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;

  /// Called once before the first page is taken; later calls must be equal. On a GPU, key_dim must be value_dim.
  void set_layout(const PageLayout& layout, int64_t layers, Device device = kCpu);
  const PageLayout& layout() const { return layout_; }

  int64_t page_bytes() const { return layers_ * layout_.bytes(); }
  int64_t total() const;                  ///< maximum number of pages
  int64_t used() const { return used_; }  ///< pages that rows hold
  int64_t idle() const { return std::ssize(idle_); }
  int64_t hits() const { return hits_; }  ///< pages that find() found

  /// On a GPU, takes the memory for `pages` pages at once: later growth would move what is there.
  void reserve(int64_t pages);
  /// On the CPU, takes memory for `pages` pages and touches it. The system clears memory at its first use; on a virtual
  /// machine, that can take half as long as reading the prompts that it is for.
  void warm(int64_t pages);
  int32_t take();              ///< a page with one holder. Throws Error if there is none
  void hold(int32_t page);     ///< one more holder
  void release(int32_t page);  ///< one holder less
  bool is_shared(int32_t page) const { return pages_[static_cast<size_t>(page)].holders > 1; }
  /// Copies the first `positions` positions of all layers. On a GPU, flush() makes the copy.
  void copy(int32_t from, int32_t to, int64_t positions);

  // On the CPU:
  std::byte* data(int32_t page, int64_t layer) const;
  // On a GPU, where the positions of all pages are rows [key_heads · key_dim] of one tensor for each layer's keys and
  // values. Their addresses change when version() does. Row 0 … kPagePositions − 1 belong to no page: padding is
  // written there.
  Tensor rows(int64_t layer, bool is_value) const;
  static int64_t first_row(int32_t page) { return (int64_t{page} + 1) * kPagePositions; }
  int64_t version() const { return version_; }
  void flush();

  using Tokens = std::array<int32_t, kPagePositions>;
  /// The page that follows `parent` (−1: the first of a text) with these tokens, with one more holder; −1: unknown.
  int32_t find(int32_t parent, const Tokens& tokens);
  /// Makes a full page known to find() and returns it. If an equal one is known, releases the page and returns the
  /// known one, with one more holder. The parent must be known, too.
  int32_t remember(int32_t page, int32_t parent, const Tokens& tokens);

 private:
  static constexpr int64_t kIdleBytes = int64_t{256} << 20;
  struct Prefix {
    uint64_t parent = 0;  // the parent's serial number; 0: the first page of a text
    Tokens tokens{};
    bool operator==(const Prefix&) const = default;
  };
  struct PrefixHash {
    size_t operator()(const Prefix& prefix) const;
  };
  struct Page {
    std::unique_ptr<Storage> memory;
    int64_t holders = 0;
    uint64_t serial = 0;  // 0: not known as part of a prefix
    Prefix prefix{};
    std::list<int32_t>::iterator place{};  // in idle_
  };
  uint64_t serial_of(int32_t page) const { return page < 0 ? 0 : pages_[static_cast<size_t>(page)].serial; }
  void evict();
  void grow(int64_t pages);
  int32_t add_page();  // to the free ones

  int64_t limit_, layers_ = 0, used_ = 0, hits_ = 0;
  PageLayout layout_{};
  Device device_ = kCpu;
  Tensor memory_;  // on a GPU: [2 · layers, capacity, row], keys and values of each layer
  int64_t capacity_ = 0, version_ = 0;
  std::vector<int64_t> copies_;  // that flush() makes: from, to and count, as rows
  std::vector<Page> pages_;
  std::vector<int32_t> free_;
  std::list<int32_t> idle_;  // least recently used first
  std::unordered_map<Prefix, int32_t, PrefixHash> known_;
  uint64_t next_serial_ = 1;
};

/// The pages of one row. Copies share them; a shared page is copied before it is written to.
class PageTable {
 public:
  /// `tracks_prefix`: full pages become known to the pool, and known pages can be taken over.
  explicit PageTable(std::shared_ptr<PagePool> pool, bool tracks_prefix = false)
      : pool_(std::move(pool)), tracks_prefix_(tracks_prefix) {}
  PageTable(const PageTable& other);
  PageTable(PageTable&& other) noexcept = default;
  PageTable& operator=(PageTable other) noexcept;
  ~PageTable();

  int64_t held() const { return held_; }
  /// Takes over known pages for the beginning of `ids`, but never all of it. Returns the number of positions. Only for
  /// an empty row.
  int64_t reuse(std::span<const int32_t> ids);
  /// Makes room for the next `count` positions, which must then be written.
  void extend(int64_t count);
  /// Records that the next positions hold `ids`, after they were written.
  void written(std::span<const int32_t> ids);
  /// Releases the pages of positions that extend() made room for and written() did not record.
  void trim();
  /// Addresses of the pages of one layer.
  std::vector<void*> addresses(int64_t layer) const;
  const PageLayout& layout() const { return pool_->layout(); }
  std::span<const int32_t> pages() const { return pages_; }
  /// Maximum number of pages that `positions` need.
  static int64_t pages_for(int64_t positions) { return (positions + kPagePositions - 1) / kPagePositions; }

 private:
  std::shared_ptr<PagePool> pool_;
  bool tracks_prefix_;
  std::vector<int32_t> pages_;
  int64_t held_ = 0;
  PagePool::Tokens last_{};  // the tokens of the last page
};

}  // namespace attend
