#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "serve/model_routes.h"
#include "serve/room.h"

namespace attend {

/// The order in which the texts of a request are read: longest first, in batches of similar length.
class TextQueue {
 public:
  explicit TextQueue(std::vector<int64_t> lengths);

  bool is_empty() const { return next_ == order_.size(); }
  size_t next() const { return order_[next_]; }                          ///< index of the next text
  int64_t longest() const { return is_empty() ? 0 : lengths_[next()]; }  ///< length of the next text
  /// Takes the next texts, at least one, and with padding at most `tokens` tokens. Blank texts are a batch of their
  /// own.
  std::span<const size_t> take(int64_t tokens);

 private:
  std::vector<int64_t> lengths_;
  std::vector<size_t> order_;
  size_t next_ = 0;
};

/// The number of tokens of each text.
template <class Text>
std::vector<int64_t> lengths_of(const std::vector<Text>& texts) {
  std::vector<int64_t> lengths;
  for (const Text& text : texts) lengths.push_back(std::ssize(text.ids));
  return lengths;
}

/// A request that reads texts, in parts between which other requests have their turn.
class TextWork {
 public:
  virtual ~TextWork() = default;

  virtual int64_t longest() const = 0;         ///< number of tokens of the longest text
  virtual const char* text_field() const = 0;  ///< field of the request that has the texts
  /// Reads about `tokens` further tokens.
  virtual Piece read(int64_t tokens) = 0;
  /// The body of the response, after the last part.
  virtual std::string answer() = 0;
};

/// Runs the work in the model's thread, then sends the answer.
void submit_work(const std::shared_ptr<ModelEntry>& model, const HttpRequest& request, const std::string& user,
                 Responder& responder, std::shared_ptr<TextWork> work);

/// A JSON array of texts that are JSON themselves.
std::string json_array(std::span<const std::string> items);

}  // namespace attend
