#include "attend/autograd/autograd.h"
#include "attend/base/error.h"
#include "inspect/capture.h"

namespace attend {
namespace {

RunSide side_of(const ImageModel& model, const ImagePreparation& preparation, const RunOptions& options) {
  RunPicture seen{.image = preparation.sized(*options.picture)};
  seen.rows = seen.image.height / model.patch_size();
  seen.columns = seen.image.width / model.patch_size();
  RunSide side{.name = "image", .text = options.text, .tokens = {}};
  for (int64_t i = 0; i <= seen.rows * seen.columns; ++i) side.tokens.push_back(show_patch(i, seen.columns));
  side.picture = std::move(seen);
  return side;
}

}  // namespace

Run capture(const ImageModel& model, const ImagePreparation& preparation, const RunOptions& options) {
  require<Error>(options.picture != nullptr, "inspect: architecture ", model.architecture(),
                 " reads images, but none was given");
  require<ShapeError>(options.steer.empty(), "steer: an image model has no texts to steer toward");
  const auto start = std::chrono::steady_clock::now();
  const NoGrad scope;
  const Tensor pixels = preparation.pixels(*options.picture);
  Run run;
  add_side(run, side_of(model, preparation, options), options);
  Watcher watcher(options, false);
  if (model.labels().empty()) {
    require_numbers(model.hidden(pixels, {.observer = &watcher}));
  } else {
    run.output = label_output(model.labels(), model.classify(pixels, {.observer = &watcher}));
  }
  keep_seen(run, watcher, options);
  describe_model(run, model);
  finish_run(run, start);
  return run;
}

}  // namespace attend
