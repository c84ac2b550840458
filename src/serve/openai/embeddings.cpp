// POST /v1/embeddings
#include <algorithm>

#include "attend/generate/embed.h"
#include "io/base64.h"
#include "serve/model_routes.h"

namespace attend {
namespace {

constexpr size_t kMostTexts = 2048, kTextsAtOnce = 32;

Json vector_json(const std::vector<float>& vector, bool is_base64) {
  if (!is_base64) return vector;
  std::string text;
  append_base64(text, std::as_bytes(std::span(vector)));
  return text;
}

/// The texts of a request and their vectors so far.
struct EmbeddingWork {
  std::shared_ptr<ModelEntry> model;
  std::vector<std::string> texts;
  bool is_base64 = false;
  Json data = Json::array();
  size_t done = 0;
  int64_t tokens = 0;

  void require_whole(const EmbeddedText& result, const std::string& text) const {
    if (!result.is_cut) return;
    const int64_t longest = model->own.sentence.longest > 0 ? model->own.sentence.longest : model->context();
    throw RequestError(400,
                       "a text has " + std::to_string(model->tokenizer().encode(text, true).size()) +
                           " tokens, but the model reads at most " + std::to_string(longest) + " tokens",
                       "input", "context_length_exceeded");
  }

  /// Embeds some texts. Null if there are more.
  Json compute() {
    const size_t count = std::min(kTextsAtOnce, texts.size() - done);
    const auto some = std::span(texts).subspan(done, count);
    const auto results =
        embed(model->model(), model->tokenizer(), some, {.sentence = model->own.sentence, .rules = model->own.rules});
    for (size_t i = 0; i < count; ++i) {
      require_whole(results[i], some[i]);
      tokens += results[i].tokens;
      model->metrics.prompt_tokens += results[i].tokens;
      data.push_back(
          {{"object", "embedding"}, {"index", done + i}, {"embedding", vector_json(results[i].vector, is_base64)}});
    }
    done += count;
    if (done < texts.size()) return {};
    return {{"object", "list"},
            {"data", std::move(data)},
            {"model", model->own.name},
            {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}};
  }
};

}  // namespace

void answer_embeddings(RouteContext& context, const HttpRequest& request, Responder& responder) {
  RequestFields fields(request.body);
  const auto work = std::make_shared<EmbeddingWork>();
  work->model = context.model(fields);
  if (work->model->model().kind() == ModelKind::pictures) fields.fail("model", "does not read texts");
  work->texts = fields.texts("input", kMostTexts);
  if (work->texts.empty()) fields.fail("input", "is missing");
  const std::string format = fields.text("encoding_format").value_or("float");
  if (format != "float" && format != "base64") fields.fail("encoding_format", "must be \"float\" or \"base64\"");
  work->is_base64 = format == "base64";
  fields.text("user");
  fields.refuse_others();
  for (std::string& text : work->texts) text.insert(0, work->model->own.prompt);
  compute_in_turn(work->model, request, responder, [work] { return work->compute(); });
}

}  // namespace attend
