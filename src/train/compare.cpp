#include "attend/train/compare.h"

#include <algorithm>
#include <filesystem>

#include "attend/base/error.h"
#include "attend/data/lines.h"
#include "attend/generate/translate.h"
#include "attend/io/files.h"
#include "attend/io/json.h"
#include "attend/models/registry.h"
#include "attend/models/setting_error.h"
#include "io/json_depth.h"
#include "io/regular_file.h"
#include "io/scratch_folder.h"
#include "train/compare_report.h"

namespace attend {
namespace {

namespace fs = std::filesystem;
using Lines = std::vector<std::string>;

constexpr const char* kPlanFile = "/comparison.json";
constexpr double kHeldOut = 0.05;  // share of the pairs held out if no test set is given: a few hundred sentences
constexpr int64_t kWarmupPart = 5;

bool has_setting(const std::vector<SettingInfo>& settings, const std::string& name) {
  return find_setting(settings, name) != nullptr;
}

void check_settings(const ComparisonJob& job) {
  for (const ComparisonSetting& setting : job.settings) {
    const auto takes = [&](const std::string& architecture) {
      const bool is_meant = setting.architecture.empty() || setting.architecture == architecture;
      return is_meant &&
             (has_setting(training_settings(), setting.name) || has_setting(settings_of(architecture), setting.name));
    };
    require<SettingError>(std::ranges::any_of(job.architectures, takes), "none of the compared models has a setting '",
                          setting.architecture, setting.architecture.empty() ? "" : ".", setting.name, "'");
  }
}

void check(const ComparisonJob& job) {
  require<Error>(!job.architectures.empty(), "nothing to compare: expected at least one architecture");
  for (const std::string& name : job.architectures) {
    const auto found = std::ranges::find(architectures(), name, &Architecture::name);
    require<SettingError>(found != architectures().end() && found->kind == ModelKind::translation, "'", name,
                          "' is not a translation architecture; expected rnn, rnn-attention or transformer");
    require<SettingError>(std::ranges::count(job.architectures, name) == 1, "architecture ", name, " is given twice");
  }
  require<ShapeError>(job.buckets >= 1 && job.beam >= 1, "compare: expected at least one bucket and a beam of 1, got ",
                      job.buckets, " and ", job.beam);
  check_settings(job);
}

/// All architectures get the same number of updates, the same batches, and a learning rate that rises linearly and then
/// falls to 0 at the last step. The peak rate is each architecture's own default.
TrainingJob job_for(const std::string& architecture, const ComparisonJob& job) {
  TrainingJob result{.architecture = architecture, .preset = job.preset, .data = job.data};
  std::map<std::string, std::string> training;
  for (const ComparisonSetting& setting : job.settings) {
    if (!setting.architecture.empty() && setting.architecture != architecture) continue;
    if (has_setting(settings_of(architecture), setting.name)) {
      result.model[setting.name] = setting.value;
    } else if (has_setting(training_settings(), setting.name)) {
      training[setting.name] = setting.value;
    }
  }
  TrainingOptions options = default_training(architecture);
  options.steps = job.steps;
  options.batch_tokens = job.batch_tokens;
  options.seed = job.seed;
  options.schedule = ScheduleKind::linear;
  options.warmup = std::min(options.warmup, job.steps / kWarmupPart);
  options.samples = 1;
  result.training = with_training(options, training);
  return result;
}

void keep_stdin(ComparisonJob& job, const std::string& folder) {
  for (Corpus* corpus :
       {&job.data.corpus, job.data.validation ? &*job.data.validation : nullptr, job.test ? &*job.test : nullptr}) {
    if (corpus == nullptr) continue;
    for (Lines* files : {&corpus->files, &corpus->targets}) {
      for (std::string& file : *files) {
        if (file != "-") continue;
        file = folder + "/stdin.txt";
        save_stdin(file);
      }
    }
  }
}

std::string text_of(const Lines& lines) {
  std::string text;
  for (std::string line : lines) {
    std::ranges::replace_if(
        line, [](char c) { return c == '\n' || c == '\r'; }, ' ');
    text += line + '\n';
  }
  return text;
}

Lines lines_of(const std::string& path) {
  Lines lines;
  open_regular(path, Links::refuse);  // refuses a pipe, which would block
  LineReader reader(path);
  for (std::string line; reader.next(line);) lines.push_back(std::move(line));
  return lines;
}

int64_t parameters_of(const Model& model) {
  int64_t count = 0;
  for (const auto& [name, tensor] : model.parameters()) count += tensor.numel();
  return count;
}

struct Stopped {};  // thrown to abort a translation

/// The model's translations of the sources. Throws Stopped once `stop` is true.
Lines translations(const TrainingFolder& folder, const Lines& sources, int64_t beam, const std::string& name,
                   const Progress& progress, const std::atomic<bool>* stop) {
  Lines result;
  translate(dynamic_cast<const PairModel&>(folder.model()), *folder.data().tokenizer, sources, {.beam = beam},
            [&](const TranslatedLine& line) {
              if (stop && *stop) throw Stopped{};
              result.push_back(line.best[0].text);
              if (progress && result.size() < sources.size()) {
                progress(name + ": translating",
                         static_cast<double>(result.size()) / static_cast<double>(sources.size()));
              }
            });
  return result;
}

/// Removes the folder on destruction if it was created here and keep() was not called.
class Unfinished {
 public:
  explicit Unfinished(std::string folder) : folder_(std::move(folder)), is_new_(!fs::exists(folder_)) {
    std::error_code error;
    fs::create_directories(folder_, error);
    require<Error>(!error, folder_, ": cannot make this folder: ", error.message());
  }
  ~Unfinished() {
    std::error_code error;
    if (is_new_ && !is_kept_) fs::remove_all(folder_, error);
  }
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;
  void keep() { is_kept_ = true; }

 private:
  std::string folder_;
  bool is_new_, is_kept_ = false;
};

std::shared_ptr<const FolderLock> lock_for_comparison(const std::string& folder) {
  auto lock = std::make_shared<const FolderLock>(folder);
  require<Error>(!lock->is_busy(), folder, ": another process is working on this comparison");
  return lock;
}

}  // namespace

ComparisonFolder ComparisonFolder::create(const ComparisonJob& given, const std::string& folder, bool overwrite,
                                          const Progress& progress) {
  check(given);
  require<Error>(!fs::exists(folder) || fs::is_directory(folder), folder, ": is a file; expected a folder");
  require<Error>(overwrite || !fs::exists(folder) || fs::is_empty(folder), folder,
                 " already exists; use --resume or --overwrite");
  Unfinished unfinished(folder);
  ComparisonFolder result;
  result.folder_ = folder;
  result.lock_ = lock_for_comparison(folder);
  ComparisonJob job = given;
  keep_stdin(job, folder);
  if (!job.test && job.data.validation_share == 0) job.data.validation_share = kHeldOut;
  const auto add = [&result](const Example& example) {
    result.sources_.push_back(example.source);
    result.targets_.push_back(example.target);
  };
  if (job.test) {
    CorpusReader reader(*job.test);
    for (Example example; reader.next(example);) add(example);
  }
  result.architectures_ = job.architectures;
  result.buckets_ = job.buckets;
  result.beam_ = job.beam;
  result.is_test_given_ = job.test.has_value();
  result.is_lowercase_ = job.data.lowercase;
  std::vector<Example> held_out;
  for (const std::string& architecture : job.architectures) {
    const std::string path = folder + "/" + architecture;
    const Progress named = [&](const std::string& what, double share) {
      if (progress) progress(architecture + ": " + what, share);
    };
    const TrainingFolder made = TrainingFolder::create(job_for(architecture, job), path, overwrite, named);
    fs::remove(folder + kPlanFile);  // an existing comparison is replaced from here on
    job.data.tokenizer = path;       // all models share one vocabulary
    held_out = made.data().samples;
  }
  if (!job.test) std::ranges::for_each(held_out, add);
  write_file(folder + "/test.source.txt", text_of(result.sources_));
  write_file(folder + "/test.target.txt", text_of(result.targets_));
  write_file(folder + kPlanFile, Json{{"architectures", job.architectures},
                                      {"buckets", job.buckets},
                                      {"beam", job.beam},
                                      {"lowercase", job.data.lowercase},
                                      {"test", result.is_test_given_ ? "given" : "held out"}}
                                         .dump(2) +
                                     "\n");
  unfinished.keep();
  return result;
}

ComparisonFolder ComparisonFolder::open(const std::string& folder) {
  require<Error>(fs::exists(folder + kPlanFile), folder, ": there is no comparison to resume");
  ComparisonFolder result;
  result.folder_ = folder;
  result.lock_ = lock_for_comparison(folder);
  try {
    const std::string text = read_regular(folder + kPlanFile, 1 << 20, Links::refuse);
    require<FormatError>(is_shallow_json(text), folder + kPlanFile, ": the JSON is nested too deep");
    const Json plan = Json::parse(text);
    result.architectures_ = plan.at("architectures").get<Lines>();
    result.buckets_ = plan.at("buckets").get<int64_t>();
    result.beam_ = plan.at("beam").get<int64_t>();
    result.is_lowercase_ = plan.value("lowercase", false);
    result.is_test_given_ = plan.at("test") == "given";
  } catch (const JsonError&) {
    throw FormatError(folder + kPlanFile + ": is damaged; start over with --overwrite");
  }
  result.sources_ = lines_of(folder + "/test.source.txt");
  result.targets_ = lines_of(folder + "/test.target.txt");
  require<FormatError>(result.sources_.size() == result.targets_.size() && !result.sources_.empty(), folder,
                       ": test.source.txt has ", result.sources_.size(), " lines but test.target.txt has ",
                       result.targets_.size());
  return result;
}

std::optional<Comparison> ComparisonFolder::run(const ComparisonObserver& observer, const std::atomic<bool>* stop,
                                                Device device) try {
  std::optional<Comparison> comparison;
  for (const std::string& architecture : architectures_) {
    const std::string path = folder_ + "/" + architecture;
    TrainingFolder folder = TrainingFolder::open(path);
    folder.to(device);
    const TrainingOutcome outcome =
        folder.run(observer.training ? observer.training(folder) : TrainingObserver{}, stop);
    if (outcome.end == TrainingOutcome::End::interrupted) return std::nullopt;
    if (observer.trained) observer.trained(folder, outcome, path);
    const Lines written = translations(folder, sources_, beam_, architecture, observer.translating, stop);
    write_file(path + ".txt", text_of(written));
    if (!comparison) comparison = comparison_of(sources_, *folder.data().tokenizer, buckets_);
    add_model(*comparison,
              {.architecture = architecture,
               .parameters = parameters_of(folder.model()),
               .steps = outcome.step,
               .seconds = outcome.seconds,
               .tokens_per_second = outcome.tokens_per_second,
               .validation_loss = outcome.result.loss},
              written, targets_, comparison_bleu(targets_, is_lowercase_));
    comparison->is_test_given = is_test_given_;
    write_file(folder_ + "/compare.svg", comparison_chart(*comparison));
    write_file(folder_ + "/compare.json", comparison_json(*comparison) + "\n");
  }
  return comparison;
} catch (const Stopped&) {
  return std::nullopt;
}

}  // namespace attend
