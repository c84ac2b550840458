#include "train/context_batch.h"

#include <algorithm>

#include "attend/base/error.h"
#include "attend/models/setting_error.h"

namespace attend {
namespace {

constexpr int64_t kIgnored = -100;

}  // namespace

void check_context_parallel(const Model& model, const TrainingOptions& options, int processes) {
  const int64_t divided = options.context_parallel;
  require<SettingError>(divided >= 1, "'context_parallel' must be at least 1, got ", divided);
  if (divided == 1) return;
  require<SettingError>(processes % divided == 0, "'context_parallel' is ", divided,
                        " and must divide the number of processes, which is ", processes,
                        processes == 1 ? ": start more with mpirun or srun, or set it to 1" : "");
  require<SettingError>(model.kind() == ModelKind::language,
                        "'context_parallel' applies only to language models, not to architecture ",
                        model.architecture());
  require<SettingError>(model.context() >= 2 * divided, "'context' must be at least twice 'context_parallel', got ",
                        model.context(), " and ", divided);
}

MicroBatch context_batch(MicroBatch whole, const ContextPart& part) {
  MicroBatch mine;
  for (const BatchInput& input : whole.inputs) {
    mine.inputs.push_back({part.take(input.values, 1), input.limit, input.has_ignored});
    const auto values = mine.inputs.back().values.data<const int64_t>();
    mine.read = std::ssize(values);
    if (input.has_ignored) mine.tokens = mine.read - std::ranges::count(values, kIgnored);
  }
  mine.counted = mine.tokens;
  mine.loss = [loss = std::move(whole.loss), &part](const std::vector<Tensor>& inputs, const ForwardPass& pass) {
    ForwardPass divided = pass;
    divided.context = &part;
    return loss(inputs, divided);
  };
  return mine;
}

}  // namespace attend
