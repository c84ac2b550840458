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

// What the rest of the program asks of a network, whatever its architecture. Each architecture is a plain struct in a
// file of its own that fulfils one of these.
namespace attend {

enum class ModelKind { translation, language, classification, pictures };

/// The last layer: logits = hidden · weightᵀ + bias.
struct Head {
  Tensor weight;  ///< [vocab_size, dim]
  Tensor bias;    ///< [vocab_size] or empty

  Tensor logits(const Tensor& hidden) const;
  /// cross_entropy(logits(hidden), labels) without ever holding all logits. hidden […, dim], labels i64 of its leading
  /// shape.
  Tensor loss(const Tensor& hidden, const Tensor& labels, LossOptions options = {}) const;
};

/// Generation in progress: a number of rows, each with all it has read and written so far. Nothing is recorded.
class Decoding {
 public:
  virtual ~Decoding() = default;

  /// Adds ids (i64 [rows, count]) to the rows and returns the logits after each row's last token, [rows, words]. While
  /// nothing is held rows may differ: `lengths` (i64 [rows]) says how many of the ids are real, the rest is padding.
  virtual Tensor step(const Tensor& ids, const Tensor& lengths = {}, const ForwardPass& pass = {}) = 0;
  /// Row i goes on from what row order[i] was; rows may be repeated, moved and dropped. The rows of one source sentence
  /// stay together, as many as spread() made.
  virtual void select(std::span<const int64_t> order) = 0;
  /// Each row becomes `rows` of its kind side by side: hypotheses of one sentence. Until then what they share is
  /// computed once.
  virtual void spread(int64_t rows) = 0;
  /// Takes the rows of `other` behind its own: a decoding of the same model and class, with as many rows per sentence.
  /// Rows may then hold different numbers of tokens, and read one token at a time.
  virtual void join(Decoding& other) = 0;
};

class Model {
 public:
  virtual ~Model() = default;

  virtual std::string architecture() const = 0;
  virtual ModelKind kind() const = 0;
  /// The settings as JSON text, with "architecture": what create_model takes.
  virtual std::string config() const = 0;
  /// Handles that share the model's data and gradients. A tied matrix is there once.
  virtual std::vector<NamedTensor> parameters() const = 0;
  /// The parameters themselves, in the same order, to be replaced by others of the same shape: when weights are loaded.
  virtual void visit_parameters(const ParameterVisitor& visit) = 0;
  /// The matrices of its linear layers and embeddings, to be put into another format for inference (see
  /// attend/nn/weight_formats.h); a model that has none throws.
  virtual std::vector<Tensor*> matrices();
  virtual int64_t vocab_size() const = 0;  ///< size of the vocabulary
  virtual int64_t dim() const = 0;         ///< width of the embedding and of what the last layer reads
  virtual int64_t context() const = 0;     ///< the longest sequence it takes, in tokens
  virtual Positions position_kind() const = 0;
};

/// Holds the model's matrices in a format from now on. Throws Error for a model that cannot.
void set_weight_format(Model& model, WeightFormat format);

struct PairInputs {
  Tensor source;          ///< i64 [batch, sources]
  Tensor source_lengths;  ///< i64 [batch]; empty: no padding
  Tensor target;          ///< i64 [batch, targets]: begin, y₁, y₂, …; padded at the end
};

/// A sentence in, a sentence out.
class PairModel : public Model {
 public:
  ModelKind kind() const final { return ModelKind::translation; }
  /// What the head turns into logits: [batch, targets, dim].
  virtual Tensor hidden(const PairInputs& inputs, const ForwardPass& pass = {}) const = 0;
  virtual Head head() const = 0;
  /// Where the target looked at the source, from the traces of one call of hidden(): for each decoder layer that looks
  /// back [batch, heads, targets, sources]. Empty for a model that never does.
  virtual std::vector<Tensor> cross_weights(const std::vector<AttentionTrace>& traces) const = 0;
  /// Reads the sources, a row for each.
  virtual std::unique_ptr<Decoding> start(const Tensor& source, const Tensor& source_lengths) const = 0;
};

/// Text goes on.
class LanguageModel : public Model {
 public:
  ModelKind kind() const final { return ModelKind::language; }
  /// [batch, length, dim] for ids i64 [batch, length].
  virtual Tensor hidden(const Tensor& ids, const ForwardPass& pass = {}) const = 0;
  virtual Head head() const = 0;
  virtual std::unique_ptr<Decoding> start() const = 0;
};

struct TextInputs {
  Tensor ids;      ///< i64 [batch, length]
  Tensor lengths;  ///< i64 [batch]; empty: no padding
  Tensor types{};  ///< i64 [batch, length]: which of two texts a token belongs to; empty: all to the first
};

/// What a classifier's numbers become: shares of the labels, of which one holds (softmax); a probability for each label
/// by itself (sigmoid); or the numbers themselves.
enum class LabelScores { shares, each, values };
/// The numbers of a classifier, […, labels], as what they mean.
Tensor score_labels(const Tensor& numbers, LabelScores scores);

/// A text in, a label out.
class EncoderModel : public Model {
 public:
  ModelKind kind() const final { return ModelKind::classification; }
  virtual std::vector<std::string> labels() const = 0;
  /// How many kinds of tokens it tells apart, see TextInputs::types; 0: none.
  virtual int64_t token_types() const = 0;
  /// A vector for each token: [batch, length, dim].
  virtual Tensor hidden(const TextInputs& inputs, const ForwardPass& pass = {}) const = 0;
  /// [batch, labels].
  virtual Tensor classify(const TextInputs& inputs, const ForwardPass& pass = {}) const = 0;
  /// What the numbers of classify() mean.
  virtual LabelScores label_scores() const { return LabelScores::shares; }
  /// Whether it has the layers that guess masked words: masked_hidden() and masked_head() throw Error otherwise.
  virtual bool has_masked_head() const = 0;
  /// For masked-word training: what masked_head() turns into logits over words, [batch, length, dim].
  virtual Tensor masked_hidden(const TextInputs& inputs, const ForwardPass& pass = {}) const = 0;
  virtual Head masked_head() const = 0;
};

/// A picture in, a label out.
class ImageModel : public Model {
 public:
  ModelKind kind() const final { return ModelKind::pictures; }
  virtual std::vector<std::string> labels() const = 0;
  virtual int64_t image_size() const = 0;  ///< width and height of the pictures it takes, in pixels
  virtual int64_t patch_size() const = 0;
  virtual int64_t channels() const = 0;  ///< numbers of a pixel: 1 (grey) or 3 (red, green, blue) in most
  /// A vector for the whole, then one for each patch from the top left: [batch, 1 + patches, dim], for pixels
  /// [batch, channels, size, size] as the model's preprocessing leaves them.
  virtual Tensor hidden(const Tensor& pixels, const ForwardPass& pass = {}) const = 0;
  /// [batch, labels].
  virtual Tensor classify(const Tensor& pixels, const ForwardPass& pass = {}) const = 0;
};

}  // namespace attend
