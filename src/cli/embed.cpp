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

A vector for each line, in the same order: numbers with tabs between them, JSON (--json), or one array for all of them
(--npy). A sentence-transformers folder says itself how it pools; other models give the mean of their last layer unless
told otherwise. --similarity prints the cosine of every two texts instead.)";

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
  explicit EmbedCommand(const EmbedArguments& arguments) : arguments_(arguments) {
    const std::string& path = arguments.common.model;
    if (is_sentence_folder(path)) sentence_ = read_sentence_folder(path);
    folder_ = open_model(sentence_.model.empty() ? path : sentence_.model, arguments.common.weights);
    require<Error>(folder_.tokenizer != nullptr, folder_.path,
                   ": this is an image classifier, which gives no vectors of texts: use attend classify");
    options_ = {.sentence = sentence_.settings, .rules = folder_.rules, .batch_tokens = arguments.batch_tokens};
    for (const auto& [name, pooling] : kPoolings) {
      if (arguments.pooling == name) options_.sentence.pooling = {pooling};
    }
    options_.sentence.is_normalized |= arguments.normalize;
  }

  void run() {
    const bool is_joint = arguments_.npy || arguments_.similarity;
    LineWork work("embed", arguments_.common, {.is_continuable = !is_joint});
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

  /// A row for each text; after a signal those that are finished.
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
  use_threads(arguments.common.threads);
  if (arguments.npy && (arguments.common.json || arguments.similarity)) {
    throw UsageError("--npy excludes --json and --similarity");
  }
  if (arguments.npy && (arguments.common.output.empty() || arguments.common.output == "-")) {
    throw UsageError("--npy needs a file: --output FILE");
  }
  const PrecisionScope precision(arguments.common.weights.precision());
  EmbedCommand(arguments).run();
}

}  // namespace

void add_embed(Command& app) {
  Command* command = app.add_subcommand("embed", "Turn texts into vectors");
  const auto arguments = std::make_shared<EmbedArguments>();
  add_model_options(*command, arguments->common);
  add_text_options(*command, arguments->common);
  std::vector<std::string> names;
  for (const auto& [name, pooling] : kPoolings) names.emplace_back(name);
  command->add_option("--pooling", arguments->pooling, "How tokens become one vector: first, max, mean, mean-sqrt, …")
      ->check(one_of(names))
      ->type_name("HOW");
  command->add_flag("--normalize", arguments->normalize, "Vectors of length 1");
  command->add_flag("--npy", arguments->npy, "Write one array of f32 in NumPy's format, [texts, width]");
  command->add_flag("--similarity", arguments->similarity, "Print the cosine of every two texts");
  command
      ->add_option("--batch", arguments->batch_tokens,
                   "Tokens read together: changes the speed, not the vectors (default 8192)")
      ->check(whole_number(1, 10000000))
      ->type_name("TOKENS");
  command->footer(kEmbedExamples);
  command->callback([arguments] { run_embed(*arguments); });
}

}  // namespace attend::cli
