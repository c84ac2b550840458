// POST /v1/embeddings
#include <algorithm>

#include "attend/ops/shape.h"
#include "attend/tensor/creation.h"
#include "generate/embed_framed.h"
#include "generate/text_reader.h"
#include "io/base64.h"
#include "serve/text_work.h"

namespace attend {
namespace {

constexpr size_t kMostTexts = 2048;

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

EmbedOptions options_of(const ModelEntry& model) { return {.sentence = model.own.sentence, .rules = model.own.rules}; }

/// The model's input. Throws RequestError for a text that is too long.
FramedText framed(const ModelEntry& model, const EmbeddingInput& input) {
  const int64_t own = model.own.sentence.longest;
  const int64_t longest = own > 0 ? std::min(own, model.context()) : model.context();
  const std::string text = model.own.prompt + input.text;
  FramedText result = input.ids.empty() ? frame_to_embed(model.model(), model.tokenizer(), text, options_of(model))
                                        : FramedText{.ids = input.ids, .is_cut = std::ssize(input.ids) > longest};
  if (!result.is_cut) return result;
  const size_t count = input.ids.empty() ? model.tokenizer().encode(text, true).size() : input.ids.size();
  throw RequestError(400,
                     "a text has " + std::to_string(count) + " tokens, but the model reads at most " +
                         std::to_string(longest) + " tokens",
                     "input", "context_length_exceeded");
}

/// The texts of a request and their vectors so far.
class EmbeddingWork final : public TextWork {
 public:
  EmbeddingWork(std::shared_ptr<ModelEntry> model, std::vector<FramedText> texts, bool is_base64)
      : model_(std::move(model)),
        texts_(std::move(texts)),
        is_base64_(is_base64),
        queue_(lengths_of(texts_)),
        longest_(queue_.longest()),
        data_(texts_.size()) {}

  int64_t longest() const override { return longest_; }
  const char* text_field() const override { return "input"; }

  Piece read(int64_t tokens) override {
    if (!reader_ && queue_.longest() > tokens) start_reader();
    Piece piece{.tokens = reader_ ? read_part(tokens) : read_batch(tokens)};
    piece.is_inside = reader_ != nullptr;
    piece.is_done = !reader_ && queue_.is_empty();
    tokens_ += piece.tokens;
    return piece;
  }

  std::string answer() override {
    const Json usage{{"prompt_tokens", tokens_}, {"total_tokens", tokens_}};
    return R"({"object":"list","data":)" + json_array(data_) + R"(,"model":)" + Json(model_->own.name).dump() +
           R"(,"usage":)" + usage.dump() + '}';
  }

 private:
  /// Starts a long text, if the model can read it in parts.
  void start_reader() {
    reader_ = TextReader::create(model_->model(), texts_[queue_.next()].ids, model_->cache_bytes);
    if (reader_) place_ = queue_.take(1)[0];
  }

  int64_t read_part(int64_t tokens) {
    const Tensor hidden = to(contiguous(to(reader_->read(tokens), DType::f32)), kCpu);
    const auto values = hidden.data<const float>();
    read_.insert(read_.end(), values.begin(), values.end());
    if (reader_->left() > 0) return hidden.dim(0);
    set(place_, embed_read(read_, hidden.dim(1), options_of(*model_)));
    read_.clear();
    reader_ = nullptr;
    return hidden.dim(0);
  }

  int64_t read_batch(int64_t tokens) {
    const std::span<const size_t> places = queue_.take(tokens);
    std::vector<FramedText> batch;
    for (const size_t place : places) batch.push_back(std::move(texts_[place]));
    const std::vector<EmbeddedText> results = embed_framed(model_->model(), std::move(batch), options_of(*model_));
    int64_t read = 0;
    for (size_t i = 0; i < places.size(); ++i) {
      read += results[i].tokens;
      set(places[i], results[i].vector);
    }
    return read;
  }

  void set(size_t place, std::vector<float> vector) {
    // A text without tokens gets zeros.
    if (vector.empty()) vector.resize(static_cast<size_t>(model_->model().dim()) * model_->own.sentence.pooling.size());
    data_[place] =
        Json{{"object", "embedding"}, {"index", place}, {"embedding", vector_json(vector, is_base64_)}}.dump();
  }

  std::shared_ptr<ModelEntry> model_;
  std::vector<FramedText> texts_;
  bool is_base64_;
  TextQueue queue_;
  int64_t longest_, tokens_ = 0;
  std::vector<std::string> data_;  // as JSON
  // A long text that is read in parts:
  std::unique_ptr<TextReader> reader_;
  size_t place_ = 0;
  std::vector<float> read_;
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
  const std::shared_ptr<ModelEntry> model = context.model(fields);
  if (model->model().kind() == ModelKind::pictures) fields.fail("model", "does not read texts");
  const std::vector<EmbeddingInput> inputs = read_inputs(fields, *model);
  const std::string format = fields.text("encoding_format").value_or("float");
  if (format != "float" && format != "base64") fields.fail("encoding_format", "must be \"float\" or \"base64\"");
  const std::string user = fields.text("user").value_or("");
  fields.refuse_others();
  std::vector<FramedText> texts;
  for (const EmbeddingInput& input : inputs) texts.push_back(framed(*model, input));
  submit_work(model, request, user, responder,
              std::make_shared<EmbeddingWork>(model, std::move(texts), format == "base64"));
}

}  // namespace attend
