#include "cli/inspected.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <span>

#include "attend/base/error.h"
#include "attend/io/image.h"
#include "attend/train/dataset.h"

namespace attend::cli {
namespace {

/// Takes the first validation example that is long enough to be interesting and short enough to read.
void take_example(InspectedModel& model, const Dataset& data) {
  constexpr int64_t kShortest = 6, kLongest = 40;
  for (const Example& example : data.samples) {
    const auto tokens = std::ssize(model.tokenizer->encode(example.source));
    if (tokens < kShortest || tokens > std::min(kLongest, model.model->context() - 2)) continue;
    model.example = example.source;
    if (model.model->kind() == ModelKind::translation) model.example_target = example.target;
    return;
  }
}

}  // namespace

InspectedModel open_inspected(const std::string& path, Device device, const WeightOptions& weights) {
  ModelFolder folder = open_model(path, weights, device);
  std::filesystem::path place = std::filesystem::weakly_canonical(path);
  if (place.filename().empty()) place = place.parent_path();
  InspectedModel result{.name = place.filename().string(),
                        .model = std::move(folder.model),
                        .tokenizer = folder.tokenizer,
                        .example = {},
                        .example_target = {},
                        .rules = folder.rules};
  if (const auto* image = dynamic_cast<const ImageModel*>(result.model.get())) {
    result.preparation = read_image_preparation(path, image->image_size(), image->channels());
    return result;
  }
  try {
    take_example(result, open_dataset(path));
  } catch (const std::exception&) {  // a copied model has no data beside it
  }
  choose_example(result);
  return result;
}

void take_picture(InspectedModel& model, const std::string& file) {
  require<Error>(model.model->kind() == ModelKind::pictures, model.name, ": this model reads text, not pictures");
  if (file == "-") {
    const std::string bytes(std::istreambuf_iterator<char>(std::cin), {});
    model.example_picture = std::make_shared<const Image>(decode_image(std::as_bytes(std::span(bytes)), "stdin"));
    model.example = "stdin";
    return;
  }
  model.example_picture = std::make_shared<const Image>(read_image(file));
  model.example = std::filesystem::path(file).filename().string();
}

}  // namespace attend::cli
