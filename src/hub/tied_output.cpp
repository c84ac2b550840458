#include "hub/tied_output.h"

#include <cstring>

#include "io/mapped_file.h"

namespace attend::hub {
namespace {

bool is_same(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  const size_t bytes = static_cast<size_t>(a.numel()) * size_of(a.dtype());
  return std::memcmp(a.raw(), b.raw(), bytes) == 0;
}

}  // namespace

bool is_output_tied(const HubFolder& folder, const OutputNames& names, bool otherwise) {
  const HubWeights& weights = folder.weights;
  const bool is_said = folder.config.flag("tie_word_embeddings", otherwise);
  if (!weights.contains(names.head)) return true;
  if (!is_said) return false;
  const std::string whole = names.prefix + names.embedding;
  const std::string embedding = weights.contains(whole) ? whole : names.embedding;
  if (!weights.contains(embedding)) return false;
  const Tensor head = weights.tensor(names.head);
  const bool result = is_same(head, weights.tensor(embedding));
  if (result && head.storage()->is_read_only()) {  // the head is not read again
    drop_pages({static_cast<const std::byte*>(head.raw()), head.storage()->bytes()});
  }
  return result;
}

}  // namespace attend::hub
