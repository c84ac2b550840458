#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "attend/models/settings.h"
#include "attend/nn/forward_pass.h"
#include "attend/nn/parameters.h"
#include "attend/nn/weight_formats.h"
#include "attend/ops/cross_entropy.h"

// The interfaces of models. Each architecture is a plain struct in its own file that implements one of them.
namespace attend {

enum class ModelKind { translation, language, classification, pictures };

/// The output layer: logits = hidden · weightᵀ + bias.
struct Head {
  Tensor weight;  ///< [vocab_size, dim]
  Tensor bias;    ///< [vocab_size] or empty

  Tensor logits(const Tensor& hidden) const;
  /// cross_entropy(logits(hidden), labels), computed without all logits in memory at once. hidden […, dim]; labels are
  /// i64 and have the leading shape of hidden.
  Tensor loss(const Tensor& hidden, const Tensor& labels, LossOptions options = {}) const;
};

/// The state of a generation: a batch of rows, each with the tokens it has read so far. Nothing is recorded.
class Decoding {
 public:
  virtual ~Decoding() = default;

  /// Sets the dtype of the cached keys and values on a GPU, f32 or bf16, before the first step. Default: bf16 under
  /// PrecisionScope(bf16), else f32. Ignored by models without such a cache.
  virtual void set_cache_type(DType) {}
  /// Appends ids (i64 [rows, count]) to the rows and returns the logits after each row's last token, [rows,
  /// vocab_size]. In the first step of a language model, rows may differ in length: ids from lengths[row] on (lengths:
  /// i64 [rows]) are padding. Throws ShapeError if lengths are given for another step.
  virtual Tensor step(const Tensor& ids, const Tensor& lengths = {}, const ForwardPass& pass = {}) = 0;
  /// Replaces row i by the former row order[i]; rows may be repeated, moved and dropped. The rows of a source sentence
  /// must stay consecutive, and their number must stay the one that spread() set.
  virtual void select(std::span<const int64_t> order) = 0;
  /// Replaces each row by `rows` consecutive copies, one for each hypothesis of a sentence. Computations before
  /// spread() are shared by all hypotheses.
  virtual void spread(int64_t rows) = 0;
  /// Appends the rows of `other`, a decoding of the same model and class with the same number of rows per sentence. If
  /// rows then have different numbers of tokens, each step must read one token per row.
  virtual void join(Decoding& other) = 0;
};

class Model {
 public:
  virtual ~Model() = default;

  virtual std::string architecture() const = 0;
  virtual ModelKind kind() const = 0;
  /// The settings and "architecture" as JSON text, the argument of create_model.
  virtual std::string config() const = 0;
  /// The parameters. The handles share the model's data and gradients. A tied matrix is listed once.
  virtual std::vector<NamedTensor> parameters() const = 0;
  /// Calls `visit` with a reference to each parameter, in the same order, so that it can be replaced by another tensor
  /// of the same shape. For loading weights.
  virtual void visit_parameters(const ParameterVisitor& visit) = 0;
  /// The matrices of the linear layers and embeddings, for set_weight_format. Throws Error if the model does not
  /// support other weight formats.
  virtual std::vector<Tensor*> matrices();
  /// Moves the parameters to a device; all calls then compute there. Token ids, lengths and masks may stay on the host.
  /// Existing handles, such as an optimizer's, keep the old data: move the model before creating the optimizer.
  void to(Device device);
  Device device() const;  ///< where the parameters are
  virtual int64_t vocab_size() const = 0;
  virtual int64_t dim() const = 0;      ///< width of the embedding and of the last layer's input
  virtual int64_t context() const = 0;  ///< maximum sequence length in tokens
  virtual Positions position_kind() const = 0;
};

/// Converts the model's matrices to a format, for inference. Throws Error if the model does not support it.
void set_weight_format(Model& model, WeightFormat format);

/// pack_matrix() for the matrices of a model that answers several requests at once, in the precision of the calling
/// thread. Does nothing for architectures without such products.
void pack_matrices(Model& model);

struct PairInputs {
  Tensor source;          ///< i64 [batch, sources]
  Tensor source_lengths;  ///< i64 [batch]; empty: no padding
  Tensor target;          ///< i64 [batch, targets]: begin token, y₁, y₂, …; padded at the end
};

/// A translation model: maps a source sequence to a target sequence.
class PairModel : public Model {
 public:
  ModelKind kind() const final { return ModelKind::translation; }
  /// The input of head(): [batch, targets, dim].
  virtual Tensor hidden(const PairInputs& inputs, const ForwardPass& pass = {}) const = 0;
  virtual Head head() const = 0;
  /// The cross-attention weights of one call of hidden(), from its traces: [batch, heads, targets, sources] for each
  /// decoder layer with cross-attention. Empty for a model without cross-attention.
  virtual std::vector<Tensor> cross_weights(const std::vector<AttentionTrace>& traces) const = 0;
  /// Encodes the sources and starts a generation with one row for each source.
  virtual std::unique_ptr<Decoding> start(const Tensor& source, const Tensor& source_lengths) const = 0;
};

/// A language model: predicts the next token of a text.
class LanguageModel : public Model {
 public:
  ModelKind kind() const final { return ModelKind::language; }
  /// The input of head(): maps ids i64 [batch, length] to [batch, length, dim].
  virtual Tensor hidden(const Tensor& ids, const ForwardPass& pass = {}) const = 0;
  virtual Head head() const = 0;
  virtual std::unique_ptr<Decoding> start() const = 0;
};

struct TextInputs {
  Tensor ids;      ///< i64 [batch, length]
  Tensor lengths;  ///< i64 [batch]; empty: no padding
  Tensor types{};  ///< token types, i64 [batch, length]: the index of a token's text in a pair; empty: all 0
};

/// How to interpret a classifier's outputs.
enum class LabelScores {
  shares,  ///< softmax: probabilities of labels that exclude each other
  each,    ///< sigmoid: an independent probability for each label
  values   ///< the outputs themselves, as in regression
};
/// Converts a classifier's outputs […, labels] to scores.
Tensor score_labels(const Tensor& numbers, LabelScores scores);

/// A text encoder: computes token vectors, labels and predictions of masked tokens.
class EncoderModel : public Model {
 public:
  ModelKind kind() const final { return ModelKind::classification; }
  virtual std::vector<std::string> labels() const = 0;
  /// Number of token types, see TextInputs::types; 0 if the model has no token types.
  virtual int64_t token_types() const = 0;
  /// A vector for each token: [batch, length, dim].
  virtual Tensor hidden(const TextInputs& inputs, const ForwardPass& pass = {}) const = 0;
  /// The classifier's outputs [batch, labels]. Throws Error if the model has no labels.
  virtual Tensor classify(const TextInputs& inputs, const ForwardPass& pass = {}) const = 0;
  /// How to interpret the outputs of classify().
  virtual LabelScores label_scores() const { return LabelScores::shares; }
  /// Whether the model has a masked-language-model head. If not, masked_hidden() and masked_head() throw Error.
  virtual bool has_masked_head() const = 0;
  /// The input of masked_head(): [batch, length, dim].
  virtual Tensor masked_hidden(const TextInputs& inputs, const ForwardPass& pass = {}) const = 0;
  virtual Head masked_head() const = 0;
};

/// An image classifier.
class ImageModel : public Model {
 public:
  ModelKind kind() const final { return ModelKind::pictures; }
  virtual std::vector<std::string> labels() const = 0;
  virtual int64_t image_size() const = 0;  ///< width and height of the input images in pixels
  virtual int64_t patch_size() const = 0;  ///< width and height of a patch in pixels
  virtual int64_t channels() const = 0;    ///< channels per pixel, usually 1 (grey) or 3 (red, green, blue)
  /// Maps preprocessed pixels [batch, channels, size, size] to vectors [batch, 1 + patches, dim]: one for the whole
  /// image, then one for each patch, row by row from the top left.
  virtual Tensor hidden(const Tensor& pixels, const ForwardPass& pass = {}) const = 0;
  /// The classifier's outputs [batch, labels]. Throws Error if the model has no classifier.
  virtual Tensor classify(const Tensor& pixels, const ForwardPass& pass = {}) const = 0;
};

}  // namespace attend
