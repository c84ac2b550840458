#include "generate/text_reader.h"

#include <algorithm>
#include <array>

#include "attend/ops/precision.h"

namespace attend {

std::unique_ptr<TextReader> TextReader::create(const Model& model, std::vector<int32_t> ids, int64_t most_bytes) {
  if (model.kind() != ModelKind::language || model.device() != kCpu) return nullptr;
  const auto pool = std::make_shared<PagePool>(0);
  std::unique_ptr<PagedDecoding> decoding = start_paged(model, pool, DType::f32);
  if (!decoding) return nullptr;
  const int64_t bytes = PageTable::pages_for(std::ssize(ids)) * pool->page_bytes();
  if (most_bytes > 0 && bytes > most_bytes) return nullptr;
  return std::unique_ptr<TextReader>(new TextReader(std::move(decoding), std::move(ids)));
}

TextReader::TextReader(std::unique_ptr<PagedDecoding> decoding, std::vector<int32_t> ids)
    : decoding_(std::move(decoding)), ids_(std::move(ids)) {
  const std::array<NewRow, 1> row{{{.source = {}, .prompt = ids_}}};
  decoding_->add_rows(row);
}

Tensor TextReader::read(int64_t count) {
  const BatchInvariantScope alone;
  const int64_t tokens = std::min(count, left());
  const auto part = std::span(ids_).subspan(static_cast<size_t>(read_), static_cast<size_t>(tokens));
  read_ += tokens;
  const std::array<RowReading, 1> reading{{{.row = 0, .ids = part}}};
  return decoding_->hidden(reading);
}

}  // namespace attend
