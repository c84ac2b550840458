#pragma once

#include <span>

#include "serve/generation_task.h"

namespace attend {

/// What a generating request holds at most, for the limits of a model.
struct RoomRequest {
  int64_t rows = 1;                  ///< texts or hypotheses of each prompt
  bool is_beam = false;              ///< the rows are hypotheses of one search, which share the memory of their prompt
  bool is_limit_given = false;       ///< the client chose the number of new tokens
  const char* rows_field = nullptr;  ///< field in which the client chose the number of rows; null: it did not
  const char* prompt_field = "";     ///< field that has the prompts
};

/// Checks that a request could run alone: that its tokens may be in flight, and that each of its texts fits into the
/// memory for keys and values. If the client did not choose the number of new tokens of a language model, cuts it to
/// what fits. Throws RequestError, which names the numbers and the field.
void fit_room(const ModelEntry& model, std::span<PreparedPrompt> prompts, const RoomRequest& request);

/// Throws RequestError if a request could not run even alone.
void require_room(const ModelEntry& model, int64_t tokens, const char* field);

}  // namespace attend
