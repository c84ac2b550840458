#include "generate/drafting.h"

#include <algorithm>

namespace attend {

// On a GPU, a step in which each row reads one token is a graph; a step with guesses would not be.
Drafting::Drafting(const Model& model, const EngineOptions& options)
    : model_(model), most_(model.device() == kCpu ? options.draft_tokens : 0), cost_(options.draft_cost) {}

void Drafting::start(Slot& slot) const {
  const Sequence& sequence = *slot.sequence;
  if (most_ == 0 || slot.width() > 1 || sequence.is_traced || slot.drafter) return;
  std::vector<int32_t> before = sequence.source;  // a translation often copies from its source
  before.insert(before.end(), sequence.prompt.begin(), sequence.prompt.end());
  slot.drafter = std::make_unique<Drafter>(before);
}

void Drafting::guess(std::span<Slot> running, const PagedDecoding& decoding, bool reads_prompt) {
  std::vector<Slot*> slots;
  std::vector<Draft> drafts;
  int64_t rows = 0;
  for (Slot& slot : running) {
    rows += slot.width();
    if (slot.width() > 1) continue;
    slot.draft = slot.writer->ids();
    slot.accepted = 0;
    if (!slot.drafter || reads_prompt) continue;
    // Guesses stay within the context and the pages that are reserved for the sequence.
    const int64_t room =
        std::min(model_.context() - decoding.held(slot.first_row), slot.sequence->limit - slot.written);
    slots.push_back(&slot);
    drafts.push_back(slot.drafter->guess(std::min(most_, room - 1), slot.sequence->vocabulary));
  }
  shorten_drafts(drafts, rows, cost_);
  for (size_t i = 0; i < slots.size(); ++i) {
    slots[i]->draft.insert(slots[i]->draft.end(), drafts[i].ids.begin(), drafts[i].ids.end());
    drafted_ += std::ssize(drafts[i].ids);
  }
}

void Drafting::add_time(std::span<const RowReading> readings, double seconds) {
  int64_t tokens = 0;
  for (const RowReading& reading : readings) tokens += std::ssize(reading.ids);
  cost_.add(tokens, seconds);
}

void Drafting::accept(std::span<const Slot> running, PagedDecoding& decoding) {
  for (const Slot& slot : running) {
    if (slot.guesses() == 0) continue;
    accepted_ += slot.accepted;
    decoding.accept(slot.first_row, std::span(slot.draft).subspan(1, static_cast<size_t>(slot.accepted)));
  }
}

}  // namespace attend
