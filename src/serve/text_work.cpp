#include "serve/text_work.h"

#include <algorithm>
#include <chrono>
#include <numeric>

namespace attend {

TextQueue::TextQueue(std::vector<int64_t> lengths) : lengths_(std::move(lengths)), order_(lengths_.size()) {
  std::iota(order_.begin(), order_.end(), size_t{0});
  std::ranges::stable_sort(order_, [&](size_t a, size_t b) { return lengths_[a] > lengths_[b]; });
}

std::span<const size_t> TextQueue::take(int64_t tokens) {
  const size_t first = next_;
  const int64_t length = longest();
  const int64_t most = length > 0 ? std::max<int64_t>(tokens / length, 1) : std::ssize(order_);
  while (!is_empty() && static_cast<int64_t>(next_ - first) < most && (longest() > 0) == (length > 0)) ++next_;
  return std::span(order_).subspan(first, next_ - first);
}

void submit_work(const std::shared_ptr<ModelEntry>& model, const HttpRequest& request, const std::string& user,
                 Responder& responder, std::shared_ptr<TextWork> work) {
  const auto own = std::make_shared<Responder>(std::move(responder));
  const auto start = std::chrono::steady_clock::now();
  const std::string path = request.path;
  const char* field = work->text_field();
  Job job{.tokens = work->longest()};
  job.run = [own, model, start, work = std::move(work)](int64_t tokens) {
    const Piece piece = work->read(tokens);
    model->metrics.prompt_tokens += piece.tokens;
    if (!piece.is_done) return piece;
    own->send({.body = work->answer()});
    model->metrics.request.add(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    return piece;
  };
  job.is_wanted = [own] { return !own->is_gone(); };
  job.on_failed = [own, path](const std::exception_ptr& error) { own->send(error_response(path, error_of(error))); };
  try {
    require_room(*model, job.tokens, field);
    add_job(*model, request, user, std::move(job));
  } catch (const RequestError& error) {
    own->send(error_response(path, error));
  }
}

std::string json_array(std::span<const std::string> items) {
  std::string result = "[";
  for (const std::string& item : items) {
    if (result.size() > 1) result += ',';
    result += item;
  }
  return result + ']';
}

}  // namespace attend
