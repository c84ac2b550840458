#include "cli/commands.h"

#include <cstdio>
#include <memory>

#include "attend/base/error.h"
#include "attend/generate/embed.h"
#include "attend/hub/sentence_transformers.h"
#include "cli/command_line.h"
#include "cli/json_text.h"
#include "cli/line_work.h"
#include "cli/model_folder.h"
#include "io/npy.h"

namespace attend::cli {
namespace {

constexpr const char* kEmbedExamples = R"(
Examples:
  attend embed all-MiniLM-L6-v2 "A dog runs." "一只狗在跑。" --similarity
  attend embed all-MiniLM-L6-v2 -i texts.txt -o vectors.npy --npy
  attend embed bert-base -i texts.txt --pooling first --normalize --json

The output has one vector for each input line, in the same order: as numbers separated by tabs, as JSON (--json), or all
in one array (--npy). A sentence-transformers folder specifies its pooling; other models use the mean of the last layer.
The option --pooling overrides both. --similarity prints the cosine similarity of each pair of texts instead.)";

struct EmbedArguments {
  CommonOptions common;
  std::string pooling;
  bool normalize = false, npy = false, similarity = false;
  int64_t batch_tokens = 8192;
};

constexpr std::pair<const char*, TextPooling> kPoolings[]{
    {"first", TextPooling::first},         {"max", TextPooling::max},           {"mean", TextPooling::mean},
    {"mean-sqrt", TextPooling::mean_sqrt}, {"weighted", TextPooling::weighted}, {"last", TextPooling::last}};

std::string text_line(const std::vector<float>& vector) {
  std::string line;
  char number[32];
  for (const float value : vector) {
    std::snprintf(number, sizeof number, "%.9g", static_cast<double>(value));
    line.append(line.empty() ? "" : "\t").append(number);
  }
  return line;
}

/// Embeds chunk by chunk.
class EmbedCommand {
 public:
  EmbedCommand(const EmbedArguments& arguments, Device device) : arguments_(arguments) {
    const std::string& path = arguments.common.model;
    if (is_sentence_folder(path)) sentence_ = read_sentence_folder(path);
    folder_ = open_model(sentence_.model.empty() ? path : sentence_.model, arguments.common.weights, device);
    require<Error>(folder_.tokenizer != nullptr, folder_.path,
                   ": this is an image classifier, which cannot embed texts: use attend classify");
    options_ = {.sentence = sentence_.settings, .rules = folder_.rules, .batch_tokens = arguments.batch_tokens};
    for (const auto& [name, pooling] : kPoolings) {
      if (arguments.pooling == name) options_.sentence.pooling = {pooling};
    }
    options_.sentence.is_normalized |= arguments.normalize;
  }

  void run() {
    const bool is_joint = arguments_.npy || arguments_.similarity;
    LineWork work("embed", arguments_.common, {.is_continuable = !is_joint, .is_divisible = !is_joint});
    for (auto lines = work.next(); !lines.empty(); lines = work.next()) add(lines, work);
    if (arguments_.npy) work.output().bytes(npy());
    if (arguments_.similarity) write_similarity(work);
    const int64_t context = folder_.model->context(), longest = options_.sentence.longest;
    work.finish(longest > 0 ? std::min(longest, context) : context);
  }

 private:
  void add(const std::vector<std::string>& lines, LineWork& work) {
    std::vector<std::string> texts = lines;
    for (std::string& text : texts) text.insert(0, sentence_.prompt);
    const auto results = embed(*folder_.model, *folder_.tokenizer, texts, options_);
    for (size_t i = 0; i < results.size(); ++i) {
      if (results[i].is_cut) work.cut(static_cast<int64_t>(i));
      work.speed().add(results[i].tokens);
      if (arguments_.npy || arguments_.similarity) {
        texts_.push_back(lines[i]);
        vectors_.push_back(results[i].vector);
      } else {
        work.output().line(arguments_.common.json ? json_line(Json{{"text", lines[i]}, {"vector", results[i].vector}})
                                                  : text_line(results[i].vector));
      }
    }
    work.flush();
    arguments_.similarity ? work.computed(std::ssize(lines)) : work.done(std::ssize(lines));
  }

  std::string npy() const {
    std::vector<float> all;
    for (const auto& vector : vectors_) all.insert(all.end(), vector.begin(), vector.end());
    const int64_t rows = std::ssize(vectors_), width = rows > 0 ? std::ssize(vectors_[0]) : 0;
    return npy_bytes(all, rows, width);
  }

  /// Writes one row per text; after a signal, only the finished rows.
  void write_similarity(LineWork& work) const {
    for (size_t i = 0; i < vectors_.size() && !is_stop_requested(); ++i) {
      Json row = Json::array();
      std::string line;
      for (const auto& other : vectors_) {
        const double value = cosine(vectors_[i], other);
        char number[16];
        std::snprintf(number, sizeof number, "%.4f", value);
        row.push_back(value);
        line.append(number).append("\t");
      }
      work.output().line(arguments_.common.json ? json_line(Json{{"text", texts_[i]}, {"similarity", row}})
                                                : line + in_one_line(texts_[i]));
      work.flush();
      work.done();
    }
  }

  const EmbedArguments& arguments_;
  SentenceFolder sentence_;
  ModelFolder folder_;
  EmbedOptions options_;
  std::vector<std::string> texts_;
  std::vector<std::vector<float>> vectors_;
};

void run_embed(const EmbedArguments& arguments) {
  const Device device = use(arguments.common.compute);
  if (arguments.npy && (arguments.common.json || arguments.similarity)) {
    throw UsageError("--npy cannot be combined with --json or --similarity");
  }
  if (arguments.npy && (arguments.common.output.empty() || arguments.common.output == "-")) {
    throw UsageError("--npy requires a file: --output FILE");
  }
  const PrecisionScope precision(arguments.common.weights.precision(device), device);
  EmbedCommand(arguments, device).run();
}

}  // namespace

void add_embed(Command& app) {
  Command* command = app.add_subcommand("embed", "Compute a vector for each text");
  const auto arguments = std::make_shared<EmbedArguments>();
  add_model_options(*command, arguments->common);
  add_text_options(*command, arguments->common);
  std::vector<std::string> names;
  for (const auto& [name, pooling] : kPoolings) names.emplace_back(name);
  command
      ->add_option("--pooling", arguments->pooling,
                   "Pooling of the token vectors: first, max, mean, mean-sqrt, weighted or last (default: the model's, "
                   "else mean)")
      ->check(one_of(names))
      ->type_name("NAME");
  command->add_flag("--normalize", arguments->normalize, "Scale vectors to length 1");
  command->add_flag("--npy", arguments->npy, "Write one f32 array [texts, dim] in NumPy format");
  command->add_flag("--similarity", arguments->similarity, "Print the cosine similarity of each pair of texts");
  add_batch(*command, arguments->batch_tokens);
  command->footer(kEmbedExamples);
  command->callback([arguments] { run_embed(*arguments); });
}

}  // namespace attend::cli
