#include "serve/room.h"

#include <algorithm>

#include "models/paged_decoding.h"

namespace attend {
namespace {

constexpr const char* kTooLarge = "request_too_large";

class Room {
 public:
  Room(const ModelEntry& model, const RoomRequest& request) : model_(model), request_(request) {}

  /// The memory of keys and values.
  void fit_cache(PreparedPrompt& prompt) const {
    const CacheSize size = model_.scheduler.cache_size();
    const int64_t width = request_.is_beam ? request_.rows : 1;
    const auto pages = [&](int64_t rows, int64_t limit) {
      const int64_t room = std::max<int64_t>(model_.context() - std::ssize(prompt.prompt), 0);
      return PagedDecoding::pages_for({prompt.source, prompt.prompt}, rows, std::min(limit, room));
    };
    if (prompt.limit == 0 || size.pages == 0 || pages(width, prompt.limit) <= size.pages) return;
    const int64_t needed = pages(width, prompt.limit);
    if (can_cut() && pages(width, 1) <= size.pages) {
      int64_t fitting = 1, too_many = prompt.limit;
      while (too_many - fitting > 1) {
        const int64_t middle = fitting + (too_many - fitting) / 2;
        (pages(width, middle) <= size.pages ? fitting : too_many) = middle;
      }
      prompt.limit = fitting;
      return;
    }
    const bool fits_once = request_.rows_field != nullptr && width > 1 && pages(1, prompt.limit) <= size.pages;
    throw RequestError(400,
                       "a text of the request needs up to " + std::to_string(needed * size.page_bytes) +
                           " bytes for its keys and values, but the limit is " + std::to_string(model_.cache_bytes),
                       fits_once ? request_.rows_field : limit_field(pages(width, 1) <= size.pages), kTooLarge);
  }

  void fit_flight(std::span<PreparedPrompt> prompts) const {
    const int64_t most = model_.tokens_in_flight, rows = request_.rows;
    int64_t read = 0, all = 0, largest = 0;
    for (const PreparedPrompt& prompt : prompts) {
      read += rows * prompt.read();
      all += rows * (prompt.read() + prompt.limit);
      largest = std::max(largest, prompt.read() + prompt.limit);
    }
    if (all <= most) return;
    const int64_t share = (most - read) / (rows * std::ssize(prompts));
    if (can_cut() && read < most && share > 0) {
      for (PreparedPrompt& prompt : prompts) prompt.limit = std::min(prompt.limit, share);
      return;
    }
    const char* field = limit_field(prompts.size() == 1 && read < most);
    if (request_.rows_field != nullptr && rows > 1 && largest <= most) field = request_.rows_field;
    require_room(model_, all, field);
  }

 private:
  /// A translation that is cut would miss a part of its source.
  bool can_cut() const { return !request_.is_limit_given && !model_.is_pair(); }
  /// The field that asks for too much. `has_room`: the prompt itself fits.
  const char* limit_field(bool has_room) const {
    return has_room && request_.is_limit_given ? "max_tokens" : request_.prompt_field;
  }

  const ModelEntry& model_;
  const RoomRequest& request_;
};

}  // namespace

void fit_room(const ModelEntry& model, std::span<PreparedPrompt> prompts, const RoomRequest& request) {
  const Room room(model, request);
  for (PreparedPrompt& prompt : prompts) room.fit_cache(prompt);
  room.fit_flight(prompts);
}

void require_room(const ModelEntry& model, int64_t tokens, const char* field) {
  if (tokens <= model.tokens_in_flight) return;
  throw RequestError(400,
                     "the request may have " + std::to_string(tokens) + " tokens in all, but at most " +
                         std::to_string(model.tokens_in_flight) + " may be in flight",
                     field, kTooLarge);
}

}  // namespace attend
