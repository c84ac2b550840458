#include "attend/models/vision.h"

#include "attend/nn/init.h"
#include "attend/ops/arithmetic.h"
#include "attend/ops/cast.h"
#include "attend/ops/shape.h"
#include "attend/tensor/creation.h"
#include "models/position_table.h"
#include "models/settings_json.h"

namespace attend {
namespace {

constexpr double kDeviation = 0.02;

TransformerStackConfig layers_of(const VisionConfig& config) {
  const TransformerLayerConfig layer{.dim = config.dim,
                                     .heads = config.heads,
                                     .ffn_dim = config.ffn_dim,
                                     .activation = config.activation,
                                     .norm_first = true,
                                     .input_bias = config.input_bias,
                                     .dropout = config.dropout,
                                     .eps = config.eps};
  return {.layer = layer, .layers = config.layers, .final_norm = true};
}

Linear small_linear(int64_t in, int64_t out, Rng& rng) {
  return {.weight = normal_parameter({out, in}, kDeviation, rng), .bias = constant_parameter({out}, 0)};
}

/// The grey value of an RGB pixel by ITU-R BT.601. The weights are multiples of 1/65536 and sum to 1, so grey pixels do
/// not change.
uint8_t brightness(const uint8_t* pixel) {
  return static_cast<uint8_t>((pixel[0] * 19595 + pixel[1] * 38470 + pixel[2] * 7471 + 32768) >> 16);
}

/// pixels [batch, channels, size, size] cut into patches, row by row: [batch, patches, channels · patch · patch].
Tensor cut(const Tensor& pixels, int64_t patch) {
  const int64_t batch = pixels.dim(0), channels = pixels.dim(1), across = pixels.dim(3) / patch;
  const int64_t down = pixels.dim(2) / patch;
  Tensor grid = reshape(pixels, {batch, channels, down, patch, across, patch});
  grid = transpose(transpose(transpose(grid, 1, 2), 2, 3), 2, 4);  // [batch, down, across, channels, patch, patch]
  return reshape(grid, {batch, down * across, channels * patch * patch});
}

}  // namespace

std::unique_ptr<Vision> Vision::create(const VisionConfig& config, Rng& rng) {
  require<ShapeError>(config.image >= 1 && config.patch >= 1 && config.channels >= 1 && config.layers >= 1,
                      "vision: image, patch, channels and layers must be at least 1, got ", config.image, ", ",
                      config.patch, ", ", config.channels, " and ", config.layers);
  require<ShapeError>(config.image % config.patch == 0, "vision: image must be a multiple of patch, got ", config.image,
                      " and ", config.patch);
  const int64_t across = config.image / config.patch;
  require<ShapeError>(static_cast<double>(across) * static_cast<double>(across) < kMostContext, "vision: an image of ",
                      config.image, " pixels has too many patches of ", config.patch);
  require<ShapeError>(
      static_cast<double>(config.channels) * static_cast<double>(config.patch) * static_cast<double>(config.patch) <=
          kMostWidth,
      "vision: a patch of ", config.patch, " pixels with ", config.channels, " channels is too large");
  auto model = std::make_unique<Vision>();
  model->settings = config;
  model->patches = small_linear(config.channels * config.patch * config.patch, config.dim, rng);
  model->whole = normal_parameter({1, config.dim}, kDeviation, rng);
  model->positions = LearnedPositions::create({.length = across * across + 1, .dim = config.dim}, rng);
  model->layers = TransformerEncoder::create(layers_of(config), rng);
  draw_normal(model->layers, kDeviation, 0, rng);
  const auto labels = static_cast<int64_t>(config.labels.size());
  if (labels > 0) model->classifier = small_linear(config.dim, labels, rng);
  return model;
}

std::string Vision::config() const { return config_text(architecture(), settings); }

Tensor Vision::hidden(const Tensor& pixels, const ForwardPass& pass) const {
  const Shape expected{pixels.rank() == 4 ? pixels.dim(0) : 1, settings.channels, settings.image, settings.image};
  require<ShapeError>(pixels.shape() == expected, "vision: expected pixels of shape ", expected, ", got ",
                      pixels.shape());
  const Tensor seen = patches.forward(cut(on_device(pixels, whole.device()), settings.patch));
  const Tensor front = expand(unsqueeze(cast(whole, seen.dtype()), 0), {pixels.dim(0), 1, settings.dim});
  const Tensor tokens = pass.show("tokens", concat({front, seen}, 1));
  if (pass.observer) pass.show("positions", unsqueeze(positions.weight, 0));
  const Tensor x = pass.show("embedded", positions.forward(tokens));
  const ObservedPart part(pass.observer, "stack");
  return layers.forward(drop(x, settings.dropout, pass), {}, pass);
}

Tensor Vision::classify(const Tensor& pixels, const ForwardPass& pass) const {
  require<Error>(classifier.has_value(), "vision: the model has no classifier");
  return classifier->forward(select(hidden(pixels, pass), 1, 0));
}

Image ImagePreparation::sized(const Image& image) const {
  Image picture = image;
  if (is_resized) {
    ImageSize wanted = size;
    if (shortest_edge > 0) {
      const int64_t least = std::min(image.width, image.height);
      wanted = {std::max<int64_t>(image.width * shortest_edge / least, 1),
                std::max<int64_t>(image.height * shortest_edge / least, 1)};
    }
    picture = resized(picture, wanted, resampling);
  }
  if (crop.width > 0) picture = center_cropped(picture, crop);
  return picture;
}

Tensor ImagePreparation::pixels(const Image& image) const {
  const Image picture = sized(image);
  const auto count = static_cast<size_t>(picture.width * picture.height);
  const size_t channels = mean.size();
  require<ShapeError>((channels == 1 || channels == 3) && deviation.size() == channels,
                      "vision: expected 1 or 3 channels, got ", channels);
  std::vector<float> values(channels * count);
  for (size_t c = 0; c < channels; ++c) {
    for (size_t i = 0; i < count; ++i) {
      const uint8_t* pixel = &picture.pixels[i * 3];
      const double value = (channels == 1 ? brightness(pixel) : pixel[c]) * factor;
      values[c * count + i] = static_cast<float>((value - mean[c]) / deviation[c]);
    }
  }
  return tensor<float>(values, {1, std::ssize(mean), picture.height, picture.width});
}

std::vector<NamedTensor> Vision::parameters() const { return named_parameters(*this); }
void Vision::visit_parameters(const ParameterVisitor& visit) { for_each_parameter(*this, "", visit); }
std::vector<Tensor*> Vision::matrices() { return matrices_of(*this); }

}  // namespace attend
