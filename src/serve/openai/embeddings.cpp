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

/// A text, or its token ids.
struct EmbeddingInput {
  std::string text{};
  std::vector<int32_t> ids{};
};

/// The texts of a request and their vectors so far.
struct EmbeddingWork {
  std::shared_ptr<ModelEntry> model;
  std::vector<EmbeddingInput> inputs;
  bool is_base64 = false;
  Json data = Json::array();
  size_t done = 0;
  int64_t tokens = 0;

  void require_whole(const EmbeddedText& result, const EmbeddingInput& input) const {
    if (!result.is_cut) return;
    const int64_t longest = model->own.sentence.longest > 0 ? model->own.sentence.longest : model->context();
    const size_t count =
        input.ids.empty() ? model->tokenizer().encode(model->own.prompt + input.text, true).size() : input.ids.size();
    throw RequestError(400,
                       "a text has " + std::to_string(count) + " tokens, but the model reads at most " +
                           std::to_string(longest) + " tokens",
                       "input", "context_length_exceeded");
  }

  std::vector<EmbeddedText> embedded(std::span<const EmbeddingInput> some) const {
    const EmbedOptions options{.sentence = model->own.sentence, .rules = model->own.rules};
    if (some[0].ids.empty()) {
      std::vector<std::string> texts;
      for (const EmbeddingInput& input : some) texts.push_back(model->own.prompt + input.text);
      return embed(model->model(), model->tokenizer(), texts, options);
    }
    std::vector<std::vector<int32_t>> ids;
    for (const EmbeddingInput& input : some) ids.push_back(input.ids);
    return embed_ids(model->model(), ids, options);
  }

  /// Embeds some texts. Null if there are more.
  Json compute() {
    const size_t count = std::min(kTextsAtOnce, inputs.size() - done);
    const auto some = std::span(inputs).subspan(done, count);
    const auto results = embedded(some);
    for (size_t i = 0; i < count; ++i) {
      require_whole(results[i], some[i]);
      tokens += results[i].tokens;
      model->metrics.prompt_tokens += results[i].tokens;
      data.push_back(
          {{"object", "embedding"}, {"index", done + i}, {"embedding", vector_json(results[i].vector, is_base64)}});
    }
    done += count;
    if (done < inputs.size()) return {};
    return {{"object", "list"},
            {"data", std::move(data)},
            {"model", model->own.name},
            {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}};
  }
};

/// A string, an array of strings, an array of token ids, or an array of such arrays.
std::vector<EmbeddingInput> read_inputs(RequestFields& fields, const ModelEntry& model) {
  const Json* input = fields.find("input");
  if (input == nullptr) fields.fail("input", "is missing");
  const auto ids = [&](const Json& list) {
    return EmbeddingInput{.ids = fields.ids("input", list, model.model().vocab_size())};
  };
  if (input->is_string()) return {{.text = input->string()}};
  const char* expected = "must be a string, an array of strings, an array of token ids, or an array of such arrays";
  if (!input->is_array() || input->empty()) fields.fail("input", expected);
  if (input->front().is_number()) return {ids(*input)};
  if (input->size() > kMostTexts) fields.fail("input", "may have at most 2048 texts");
  std::vector<EmbeddingInput> result;
  for (const Json& item : *input) {
    const bool is_fitting = input->front().is_string() ? item.is_string() : item.is_array();
    if (!is_fitting) fields.fail("input", expected);
    result.push_back(item.is_string() ? EmbeddingInput{.text = item.string()} : ids(item));
  }
  return result;
}

}  // namespace

void answer_embeddings(RouteContext& context, const HttpRequest& request, Responder& responder) {
  RequestFields fields(request.body);
  const auto work = std::make_shared<EmbeddingWork>();
  work->model = context.model(fields);
  if (work->model->model().kind() == ModelKind::pictures) fields.fail("model", "does not read texts");
  work->inputs = read_inputs(fields, *work->model);
  const std::string format = fields.text("encoding_format").value_or("float");
  if (format != "float" && format != "base64") fields.fail("encoding_format", "must be \"float\" or \"base64\"");
  work->is_base64 = format == "base64";
  fields.text("user");
  fields.refuse_others();
  compute_in_turn(work->model, request, responder, [work] { return work->compute(); });
}

}  // namespace attend
