#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "attend/inspect/arithmetic.h"
#include "attend/inspect/tokens.h"
#include "attend/models/generation_rules.h"
#include "attend/models/model.h"
#include "attend/models/vision.h"
#include "attend/nn/observer.h"
#include "attend/text/tokenizer.h"

// A captured forward pass of a model, for inspection.
namespace attend {

struct AblatedHead {
  int64_t attention = 0;  ///< index in Run::attention
  int64_t head = 0;
};
struct AblatedToken {
  int64_t side = 0;   ///< index in Run::sides
  int64_t index = 0;  ///< index of the token
};

/// Adds strength · direction to an activation at all places. The direction is the mean activation of the text `toward`
/// minus that of the text `away`, over their tokens that are not special; for an encoder–decoder's decoder, over the
/// translations of these texts.
struct Steering {
  std::string point;  ///< name of the activation, "stack.layers.3:output"
  std::string toward;
  std::string away;  ///< empty: nothing is subtracted
  double strength = 1;
};

struct RunOptions {
  std::string text;                        ///< input text; for an image model, the image's name
  std::optional<std::string> target;       ///< target of a translation model; default: generated as by translate()
  int64_t most_written = 0;                ///< maximum tokens of a generated target; 0: the search's default
  int64_t beam = 0;                        ///< beam size of a generated target, 1 to 8; 0: the folder's, else greedy
  std::optional<std::string> second;       ///< second text of a pair, for an encoder
  std::vector<int32_t> ids{};              ///< language models: the tokens to read; replaces `text`
  std::vector<int32_t> target_ids{};       ///< translation models: the tokens of the target; replaces `target`
  std::vector<AblatedHead> heads;          ///< heads to switch off: their part of the output is 0
  std::vector<AblatedToken> tokens;        ///< tokens that no query may attend to
  std::vector<Steering> steer{};           ///< directions to add to activations
  int64_t candidates = 5;                  ///< number of candidates per output position
  int64_t longest = 16384;                 ///< maximum tokens per text
  GenerationRules rules{};                 ///< generation settings of the model's folder
  std::shared_ptr<const Image> picture{};  ///< input of an image model
};

/// The resized input of an image model, and its number of patches. Token 0 represents the whole image; the patches
/// follow row by row.
struct RunPicture {
  Image image;
  int64_t rows = 0, columns = 0;  ///< number of patches
};

struct RunSide {
  std::string name;  ///< "source", "target", "text" or "image"
  std::string text;
  std::vector<ShownToken> tokens;
  std::optional<RunPicture> picture{};  ///< for "image" only
};

struct RowRange {
  int64_t begin = 0, end = 0;
};

/// One attention module and its trace. The steps of a recurrent decoder are the rows of one module.
struct RunAttention {
  std::string stack;                     ///< "encoder", "decoder", "stack" or "rnn"
  int64_t layer = 0;                     ///< layer in the stack
  bool is_cross = false;                 ///< cross-attention: query_side and key_side differ
  int64_t query_side = 0, key_side = 0;  ///< indices in Run::sides
  std::vector<int64_t> off;              ///< heads that were switched off
  /// The trace, with a batch of 1. For the additive score v · tanh(W s + U h), q is W s, k is U h, and `additive` is v
  /// [state_dim].
  AttentionTrace trace;
  Tensor additive;

  int64_t heads() const { return trace.q.dim(1); }
  int64_t queries() const { return trace.q.dim(2); }
  int64_t keys() const { return trace.k.dim(2); }
  double scale() const;
  /// Computes the attention weights of the forward pass: [1, heads, rows, keys]. An empty `heads` means all heads.
  Tensor weights(const std::vector<int64_t>& heads, RowRange rows) const;
};

struct ShownCandidate {
  ShownToken token;
  double probability = 0;
  double logit = 0;  ///< the output layer's number for the token
};
struct ShownLabel {
  std::string name;
  double score = 0;  ///< probability, or the value itself
  double logit = 0;  ///< the classifier's number
};

struct RunOutput {
  enum class Kind { none, tokens, labels };
  Kind kind = Kind::none;
  int64_t side = 0;                               ///< index in Run::sides of the predicted tokens
  std::vector<std::vector<ShownCandidate>> rows;  ///< candidates for the next token at each position
  bool is_masked = false;      ///< rows are candidates for the token at each position itself: a model of masked words
  std::vector<double> totals;  ///< of each position: log Σ e^logit, so that p = e^(logit − total); 0 without candidates
  std::vector<ShownLabel> labels;  ///< best first
  bool are_values = false;         ///< the labels' scores are not probabilities
};

class HeadSummaries;

/// A captured forward pass. Stores q, k, v and lse of each attention, and hidden states, but no weights: memory is
/// linear in the lengths.
struct Run {
  std::vector<RunSide> sides;
  std::vector<RunAttention> attention;  ///< in the order of computation
  std::vector<NamedTensor> values;      ///< hidden states [rows, dim], such as "encoder.layers.0.attention:residual"
  /// The model's vectors, which its equations add or multiply by: biases, and weights of norms. A copy.
  std::vector<NamedTensor> parameters;
  Arithmetic arithmetic;
  RunOutput output;
  std::vector<AblatedToken> hidden_tokens;   ///< tokens that no query may attend to
  std::vector<Steering> steer;               ///< directions that were added
  double milliseconds = 0;                   ///< time of the forward pass
  std::shared_ptr<HeadSummaries> summaries;  ///< a bounded cache, see attend/inspect/heads.h

  int64_t bytes() const;  ///< size of all tensors
};

/// Runs the model and captures the forward pass. Throws ShapeError if a text is longer than the model's context or
/// `longest`, or a head, a token to switch off, a token id or an activation to steer does not exist. Throws FormatError
/// if a text is not UTF-8.
Run capture(const Model& model, const Tokenizer& tokenizer, const RunOptions& options);
/// Runs an image model. Throws Error if `options` has no picture.
Run capture(const ImageModel& model, const ImagePreparation& preparation, const RunOptions& options);

}  // namespace attend
