#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "attend/inspect/tokens.h"
#include "attend/models/generation_rules.h"
#include "attend/models/model.h"
#include "attend/models/vision.h"
#include "attend/nn/observer.h"
#include "attend/text/tokenizer.h"

// One forward pass of a model over a text, kept so that everything about it can be asked for afterwards.
namespace attend {

struct AblatedHead {
  int64_t attention = 0;  ///< place in Run::attention
  int64_t head = 0;
};
struct AblatedToken {
  int64_t side = 0;   ///< place in Run::sides
  int64_t index = 0;  ///< of the token
};

struct RunOptions {
  std::string text;                   ///< of a picture its name
  std::optional<std::string> target;  ///< of a pair model; none: what the model itself writes, as translate() does
  int64_t most_written = 0;           ///< tokens of a target that the model writes; 0: as many as it translates with
  std::optional<std::string> second;  ///< of an encoder: the second text of a pair
  std::vector<AblatedHead> heads;     ///< switched off: their part of the output is 0
  std::vector<AblatedToken> tokens;   ///< held out: nothing may look at them
  int64_t candidates = 5;             ///< words shown for each place of the output
  int64_t longest = 16384;            ///< most tokens of a text
  GenerationRules rules{};            ///< what the model's folder says beside its tokenizer
  std::shared_ptr<const Image> picture{};  ///< what a model of pictures reads
};

/// A picture in the size that the model saw, and its patches: token 0 stands for the whole, then they come row by row.
struct RunPicture {
  Image image;
  int64_t rows = 0, columns = 0;
};

struct RunSide {
  std::string name;  ///< "source", "target", "text" or "image"
  std::string text;
  std::vector<ShownToken> tokens;
  std::optional<RunPicture> picture{};  ///< of an image
};

struct RowRange {
  int64_t begin = 0, end = 0;
};

/// One attention module of the model and what it did. A recurrent decoder's steps are the rows of one.
struct RunAttention {
  std::string stack;      ///< "encoder", "decoder", "stack" or "rnn"
  int64_t layer = 0;      ///< of its stack
  bool is_cross = false;  ///< looks at another side than it stands on
  int64_t query_side = 0, key_side = 0;
  std::vector<int64_t> off;  ///< heads that were switched off
  /// With batch 1. For Bahdanau's score, v · tanh(W s + U h): q is W s, k is U h, and `additive` v, [hidden].
  AttentionTrace trace;
  Tensor additive;

  int64_t heads() const { return trace.q.dim(1); }
  int64_t queries() const { return trace.q.dim(2); }
  int64_t keys() const { return trace.k.dim(2); }
  double scale() const;
  /// The weights the pass used, computed now: [1, heads, rows, keys]. No heads: all.
  Tensor weights(const std::vector<int64_t>& heads, RowRange rows) const;
};

struct ShownCandidate {
  ShownToken token;
  double probability = 0;
};

struct RunOutput {
  enum class Kind { none, tokens, labels };
  Kind kind = Kind::none;
  int64_t side = 0;                                    ///< whose next tokens the rows are
  std::vector<std::vector<ShownCandidate>> rows;       ///< for each place the likeliest tokens after it
  std::vector<std::pair<std::string, double>> labels;  ///< likeliest first
  bool are_values = false;                             ///< the labels' numbers are no probabilities
};

class HeadSummaries;

/// Memory is linear in the lengths: q, k, v and lse of each attention, and hidden states, but no weights.
struct Run {
  std::vector<RunSide> sides;
  std::vector<RunAttention> attention;  ///< in the order of the pass
  std::vector<NamedTensor> values;      ///< hidden states, "encoder.layers.0.attention:residual" as [rows, dim]
  RunOutput output;
  double milliseconds = 0;
  std::shared_ptr<HeadSummaries> summaries;  ///< a bounded cache, see attend/inspect/heads.h

  int64_t bytes() const;  ///< of all tensors
};

/// Runs the model once. Throws ShapeError for a text longer than the model's context or `longest`, or for a head or
/// token that is not there; FormatError for a text that is not UTF-8.
Run capture(const Model& model, const Tokenizer& tokenizer, const RunOptions& options);
/// The same for a picture. Throws Error if there is none.
Run capture(const ImageModel& model, const ImagePreparation& preparation, const RunOptions& options);

}  // namespace attend
