#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "attend/inspect/document.h"

// Detectors of well-known kinds of attention heads.
namespace attend {

enum class HeadKind {
  previous,    ///< attends to the token before
  duplicate,   ///< attends to earlier occurrences of the same token
  induction,   ///< attends to the token after an earlier occurrence of the same token (Olsson et al. 2022)
  first,       ///< attends to the first token
  separator,   ///< attends to special tokens and punctuation other than the first token and the query itself
  positional,  ///< attends to a fixed offset other than −1
  alignment    ///< cross-attention: attends to the source word that the model's word alignment links
};
constexpr size_t kHeadKinds = 7;
const char* name_of(HeadKind kind);

/// The scores of a head. A score is the mean weight, from 0 to 1, that the head puts on the keys of a kind, over the
/// queries that have such keys; empty if no query has.
struct HeadScores {
  int64_t attention = 0, head = 0;  ///< index in Run::attention, and head
  std::array<std::optional<double>, kHeadKinds> text, probe;
  int64_t offset = 0;             ///< offset of the positional score: key − query
  std::vector<HeadKind> kinds{};  ///< kinds whose score reaches the threshold, highest first
};

struct DetectOptions {
  double threshold = 0.4;  ///< smallest score of a kind, 0 to 1
  int64_t length = 50;     ///< random tokens of the probe, 4 to 512; fewer if the vocabulary or the context is small
  uint64_t seed = 1;       ///< of the probe
};

struct Detection {
  std::vector<HeadScores> heads;  ///< in the order of Run::attention
  int64_t probe_tokens = 0;       ///< tokens of the probe; 0 for a model without text tokens
  double threshold = 0;
};

/// Scores every head on the run, and on a probe: random tokens, repeated once. The probe decides about the kinds that
/// it has scores for, the run about the others. For texts of more than 1,024 tokens, the last 1,024 queries count.
/// Throws ShapeError if an option is out of range.
Detection detect_heads(const InspectedModel& model, const Run& run, const DetectOptions& options = {});

}  // namespace attend
