#include "attend/train/options.h"

#include "io/json_depth.h"
#include "models/settings_json.h"

namespace attend {

TrainingOptions default_training(std::string_view architecture) {
  TrainingOptions options;
  if (architecture == "transformer") {
    options.epochs = 40;
    options.warmup = 2000;
    options.label_smoothing = 0.1;
  } else if (architecture == "rnn" || architecture == "rnn-attention") {
    options.epochs = 30;
    options.lr = 2e-3;
    options.schedule = ScheduleKind::linear;
    options.warmup = 200;
    options.label_smoothing = 0.1;
  } else if (architecture == "gpt") {
    options.epochs = 10;
    options.batch = 16;
    options.optimizer = OptimizerKind::adamw;
    options.lr_end = 1e-4;
    options.schedule = ScheduleKind::cosine;
    options.warmup = 100;
    options.beta2 = 0.99;
    options.weight_decay = 0.1;
  } else {
    options.epochs = 10;
    options.batch = 32;
    options.optimizer = OptimizerKind::adamw;
    options.lr = 5e-4;
    options.schedule = ScheduleKind::linear;
    options.warmup = 100;
    options.beta2 = 0.999;
    options.weight_decay = 0.01;
  }
  return options;
}

TrainingOptions fine_tuning(std::string_view architecture) {
  TrainingOptions options = default_training(architecture);
  options.epochs = architecture == "transformer" ? 10 : 4;
  options.lr = options.lr_end = 0;
  options.schedule = ScheduleKind::linear;
  options.warmup = 100;
  return options;
}

std::string training_text(const TrainingOptions& options) { return settings_json(options).dump(2); }

TrainingOptions training_from(const std::string& text) {
  require<FormatError>(is_shallow_json(text), "training options: the JSON is nested too deep");
  const Json json = Json::parse_or_null(text);
  require<FormatError>(json.is_object(), "training options: expected a JSON object");
  return config_from<TrainingOptions>(json);
}

TrainingOptions with_training(const TrainingOptions& options, const std::map<std::string, std::string>& settings) {
  Json json = settings_json(options);
  const std::vector<SettingInfo> known = training_settings();
  for (const auto& [name, text] : settings) {
    const SettingInfo* info = find_setting(known, name);
    require<SettingError>(info, "there is no training option '", name, "'");
    json[info->name] = setting_value(*info, text);
  }
  return config_from<TrainingOptions>(json);
}

std::vector<SettingInfo> training_settings() { return config_settings<TrainingOptions>(); }

void require_precision(Precision precision, Device device) {
  require<Error>(precision != Precision::tf32 || device != kCpu, "tf32 needs a GPU: use --precision f32");
  require<Error>(precision != Precision::bf16 || has_bf16(device), device == kCpu ? "this processor" : "this GPU",
                 " has no bf16 instructions: use --precision f32");
}

}  // namespace attend
