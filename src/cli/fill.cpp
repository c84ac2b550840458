#include "cli/commands.h"

#include <memory>

#include "attend/base/error.h"
#include "attend/generate/fill_masks.h"
#include "cli/command_line.h"
#include "cli/json_text.h"
#include "cli/line_work.h"
#include "cli/model_folder.h"

namespace attend::cli {
namespace {

constexpr const char* kFillExamples = R"(
Examples:
  attend fill bert-base-uncased "The capital of France is [MASK]."
  attend fill bert-base-chinese "今天[MASK]气很好。" --top 3
  attend fill roberta-base "The <mask> barked at the <mask>." --json
  attend fill bert-base-uncased -i sentences.txt -o filled.tsv

The output has one line for each input line, in the same order; an empty line stays empty. Columns are separated by
tabs: the text with each mask replaced by the likeliest word, then for each mask its likeliest words with their
probabilities. The mask token depends on the model: [MASK] for BERT and DistilBERT, <mask> for RoBERTa, XLM-R and models
trained by attend.)";

struct FillArguments {
  CommonOptions common;
  FillOptions options;
};

std::string text_line(const FilledText& result) {
  std::string line = in_one_line(result.text);
  for (const FilledMask& mask : result.masks) {
    std::string column;
    for (const MaskCandidate& one : mask.candidates) {
      column.append(column.empty() ? "" : " ").append(in_one_line(one.word)).append("=");
      column.append(score_text(one.probability));
    }
    line.append("\t").append(column);
  }
  return line;
}

Json to_json(const FilledText& result, const std::string& text) {
  Json masks = Json::array();
  for (const FilledMask& mask : result.masks) {
    Json candidates = Json::array();
    for (const MaskCandidate& one : mask.candidates) {
      candidates.push_back(
          {{"word", one.word}, {"token", one.token}, {"id", one.id}, {"probability", one.probability}});
    }
    masks.push_back({{"position", mask.position}, {"candidates", std::move(candidates)}});
  }
  return {{"text", text}, {"filled", result.text}, {"masks", std::move(masks)}, {"cut", result.is_cut}};
}

/// Rejects a line without a mask token; most often it has the mask token of another model.
void require_masks(const FilledText& result, const std::string& text, const std::string& mask,
                   const std::string& place) {
  if (!result.masks.empty() || result.tokens == 0) return;
  const bool is_beyond = text.find(mask) != std::string::npos;
  require<FormatError>(!is_beyond, place, ": ", mask, " is beyond the model's maximum of ", result.tokens, " tokens");
  throw FormatError(place + ": expected " + mask +
                    ", this model's mask token, in place of each missing word; the line has none");
}

void run_fill(const FillArguments& arguments) {
  const Device device = use(arguments.common.compute);
  const ModelFolder folder = open_model(arguments.common.model, arguments.common.weights, device);
  const EncoderModel& model = masked_model(folder);
  const int32_t mask = folder.tokenizer->special().mask;
  require<FormatError>(mask >= 0, folder.path, ": the tokenizer has no mask token, which attend fill needs");
  const std::string mask_token = folder.tokenizer->token(mask);
  LineWork work("fill", arguments.common);
  const auto& input = arguments.common.input;
  const std::string file = input.texts.empty() && input.file != "-" ? input.file + ", " : "";
  for (auto lines = work.next(); !lines.empty(); lines = work.next()) {
    const auto results = fill_masks(model, *folder.tokenizer, lines, arguments.options);
    for (size_t i = 0; i < lines.size(); ++i) {
      const auto index = static_cast<int64_t>(i);
      require_masks(results[i], lines[i], mask_token, file + "line " + std::to_string(work.before() + index + 1));
      if (results[i].is_cut) work.cut(index);
      work.speed().add(results[i].tokens);
      work.output().line(arguments.common.json ? json_line(to_json(results[i], lines[i])) : text_line(results[i]));
    }
    work.flush();
    work.done(std::ssize(lines));
  }
  work.finish(model.context());
}

}  // namespace

void add_fill(Command& app) {
  Command* command = app.add_subcommand("fill", "Predict masked words, with their probabilities");
  const auto arguments = std::make_shared<FillArguments>();
  add_model_options(*command, arguments->common);
  add_text_options(*command, arguments->common);
  command->add_option("--top", arguments->options.top, "Number of words per mask (default: 5)")
      ->check(whole_number(1, 1000000))
      ->type_name("N");
  command->footer(kFillExamples);
  command->callback([arguments] { run_fill(*arguments); });
}

}  // namespace attend::cli
