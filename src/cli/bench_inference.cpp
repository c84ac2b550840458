#include "attend/autograd/autograd.h"
#include "attend/generate/search.h"
#include "attend/models/encoder.h"
#include "attend/models/gpt.h"
#include "attend/models/transformer_model.h"
#include "attend/tensor/creation.h"
#include "cli/bench_workload.h"

// Inference: reading prompts, generating, translating, encoding, with random weights and arbitrary token ids.
namespace attend::cli {
namespace {

constexpr int64_t kGpt2Words = 50257;

Tensor made_up_ids(const Shape& shape, int64_t words) {
  std::vector<int64_t> ids(static_cast<size_t>(shape.numel()));
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = philox(7, i, 0)[0] % static_cast<uint32_t>(words);
  return tensor(ids, shape);
}

std::shared_ptr<Gpt> gpt2(WeightFormat format) {
  Rng rng{1};
  std::shared_ptr<Gpt> model = on_bench_device(Gpt::create(
      {.vocab_size = kGpt2Words, .context = 1024, .dim = 768, .heads = 12, .layers = 12, .dropout = 0}, rng));
  set_weight_format(*model, format);
  return model;
}

/// Greedy search of `count` tokens after prompts of `length` tokens.
struct Writing {
  int64_t rows = 1, length = 1, count = 1;
};
void write_tokens(const Gpt& model, const Writing& writing) {
  const auto ids = made_up_ids({writing.rows, writing.length}, model.vocab_size()).to_vector<int64_t>();
  std::vector<std::vector<int32_t>> prompts;
  for (int64_t row = 0; row < writing.rows; ++row) {
    const auto begin = ids.begin() + row * writing.length;
    prompts.emplace_back(begin, begin + writing.length);
  }
  search(model, Vocabulary{.size = model.vocab_size()}, prompts, {.ends_at_limit = false, .max_length = writing.count},
         [](int64_t, auto) {});
}

std::string named(const std::string& name, WeightFormat format) {
  return format == WeightFormat::f32 ? name : name + "_" + name_of(format);
}

/// One sequence, token by token: limited by reading all weights once per token.
Workload decode_workload(WeightFormat format) {
  constexpr int64_t kSteps = 32;
  // Computed here because the model does not exist yet.
  constexpr double kMatrices = 12.0 * 12 * 768 * 768 + 50257.0 * 768, kRest = 12.0 * (13 * 768) + 2 * 768;
  const double width = format == WeightFormat::f32 ? 4 : format == WeightFormat::bf16 ? 2 : 1;
  return {.name = named("decode_gpt2", format),
          .bound = Bound::memory,
          .operations = kSteps * 2 * kMatrices,
          .bytes = kSteps * (kMatrices * width + kRest * sizeof(float)),
          .tokens = kSteps,
          .slow = true,
          .prepare = [format] {
            Prepared prepared;
            prepared.run = [model = gpt2(format)] {
              write_tokens(*model, {.count = kSteps});
              return Results{};
            };
            return prepared;
          }};
}

/// 64 sequences in one batch.
Workload decode_many_workload(WeightFormat format) {
  constexpr int64_t kRows = 64, kSteps = 8;
  constexpr double kMatrices = 12.0 * 12 * 768 * 768 + 50257.0 * 768;
  return {.name = named("decode_gpt2_64", format),
          .operations = kRows * kSteps * 2 * kMatrices,
          .tokens = kRows * kSteps,
          .format = format,
          .slow = true,
          .prepare = [format] {
            Prepared prepared;
            prepared.run = [model = gpt2(format)] {
              write_tokens(*model, {.rows = kRows, .count = kSteps});
              return Results{};
            };
            return prepared;
          }};
}

/// Generation as users run it: prompts of 32 tokens, 128 new tokens for each; the time includes reading the prompts.
/// With bf16 weights x is rounded too.
Workload generate_workload(int64_t rows, WeightFormat format) {
  static constexpr int64_t kPrompt = 32, kNew = 128;
  constexpr double kMatrices = 12.0 * 12 * 768 * 768 + 50257.0 * 768;
  const Precision precision = format == WeightFormat::bf16 ? Precision::bf16 : Precision::f32;
  return {.name = named("generate_gpt2_" + std::to_string(rows), format),
          .operations = static_cast<double>(rows) * (kPrompt + kNew) * 2 * kMatrices,
          .tokens = rows * kNew,
          .format = format,
          .precision = precision,
          .slow = true,
          .prepare = [rows, format, precision] {
            std::vector<std::vector<int32_t>> prompts(static_cast<size_t>(rows));
            const std::vector<int64_t> ids = made_up_ids({rows, kPrompt}, kGpt2Words).to_vector<int64_t>();
            for (size_t i = 0; i < ids.size(); ++i) prompts[i / kPrompt].push_back(static_cast<int32_t>(ids[i]));
            Prepared prepared;
            prepared.run = [model = gpt2(format), prompts, precision] {
              const PrecisionScope scope(precision, bench_device());
              search(*model, Vocabulary{.size = model->vocab_size()}, prompts,
                     {.ends_at_limit = false, .max_length = kNew}, [](int64_t, auto) {});
              return Results{};
            };
            return prepared;
          }};
}

/// The same steps without the host between them: nothing is read back, so that the GPU never waits for the next step.
Workload steps_workload(int64_t rows) {
  static constexpr int64_t kPrompt = 32, kNew = 128;
  return {.name = named("steps_gpt2_" + std::to_string(rows), WeightFormat::bf16),
          .operations = static_cast<double>(rows) * kNew * 2 * (12.0 * 12 * 768 * 768 + 50257.0 * 768),
          .tokens = rows * kNew,
          .format = WeightFormat::bf16,
          .precision = Precision::bf16,
          .slow = true,
          .prepare = [rows] {
            Prepared prepared;
            prepared.run = [model = gpt2(WeightFormat::bf16), prompt = made_up_ids({rows, kPrompt}, kGpt2Words),
                            ids = made_up_ids({rows, 1}, kGpt2Words)] {
              const NoGrad no_grad;
              const PrecisionScope scope(Precision::bf16, bench_device());
              const auto decoding = model->start();
              decoding->step(prompt);
              for (int64_t i = 1; i < kNew; ++i) decoding->step(ids);
              return Results{decoding->step(ids)};
            };
            return prepared;
          }};
}

/// A prompt of 512 tokens up to the logits of the next token; the output layer is computed for one row only. With
/// Precision::bf16, x is rounded too.
Workload prompt_workload(WeightFormat format, Precision precision) {
  constexpr int64_t kTokens = 512;
  constexpr double kLayers = 12.0 * 12 * 768 * 768, kHead = 50257.0 * 768;
  constexpr double kPairs = kTokens * (kTokens + 1) / 2.0, kAttention = 12 * 4 * 768 * kPairs;
  return {.name = named("prompt_gpt2", format) + (precision == Precision::bf16 ? "_rounded" : ""),
          .operations = kTokens * 2 * kLayers + 2 * kHead + kAttention,
          .tokens = kTokens,
          .format = format,
          .precision = precision,
          .slow = true,
          .prepare = [format, precision] {
            Prepared prepared;
            prepared.run = [model = gpt2(format), ids = made_up_ids({1, kTokens}, kGpt2Words), precision] {
              const NoGrad no_grad;
              const PrecisionScope scope(precision, bench_device());
              return Results{model->start()->step(ids)};
            };
            return prepared;
          }};
}

/// A vocabulary of `count` tokens without any text.
class NumberedWords final : public Tokenizer {
 public:
  explicit NumberedWords(int64_t count) : count_(count) {}
  std::vector<int32_t> encode(std::string_view, bool) const override { return {}; }
  std::string decode(std::span<const int32_t>, bool) const override { return {}; }
  int64_t size() const override { return count_; }
  std::string token(int32_t id) const override { return std::to_string(id); }
  std::optional<int32_t> find(std::string_view) const override { return std::nullopt; }
  const SpecialTokens& special() const override { return special_; }
  void save(const std::string&) const override {}

 private:
  int64_t count_;
  SpecialTokens special_{.pad = 0, .unknown = 1, .begin = 2, .end = 3};
};

/// 32 sentences of 32 tokens, with 32 tokens generated for each.
Workload translate_workload(const char* name, int64_t beam, WeightFormat format) {
  static constexpr int64_t kSentences = 32, kLength = 32, kVocab = 32000;
  constexpr double kWidth = 512, kEncoder = 6 * 12 * kWidth * kWidth, kDecoder = 6 * 14 * kWidth * kWidth;
  const auto rows = static_cast<double>(kSentences * beam);
  return {
      .name = named(name, format),
      .operations = 2 * kLength *
                    (static_cast<double>(kSentences) * (kEncoder + 6 * 2 * kWidth * kWidth) +
                     rows * (kDecoder + kVocab * kWidth)),
      .tokens = kSentences * kLength,
      .format = format,
      .slow = true,
      .prepare = [beam, format] {
        Rng rng{1};
        std::shared_ptr<TransformerModel> model = on_bench_device(TransformerModel::create(
            {.vocab_size = kVocab, .dim = 512, .heads = 8, .ffn_dim = 2048, .encoder_layers = 6, .decoder_layers = 6},
            rng));
        set_weight_format(*model, format);
        std::vector<std::vector<int32_t>> sources(kSentences);
        for (int64_t s = 0; s < kSentences; ++s) {
          for (int64_t i = 0; i < kLength; ++i) {
            sources[static_cast<size_t>(s)].push_back(static_cast<int32_t>(4 + (s * 977 + i * 31) % (kVocab - 4)));
          }
        }
        Prepared prepared;
        prepared.run = [model, sources, beam] {
          search(*model, NumberedWords(kVocab), sources,
                 {.beam = beam, .max_length = kLength - 1, .batch_tokens = 1 << 16}, [](int64_t, auto) {});
          return Results{};
        };
        return prepared;
      }};
}

/// BERT's base size, 32 texts of 128 tokens, every token's vector.
Workload encoder_workload() {
  static constexpr int64_t kRows = 32, kLength = 128;
  constexpr double kLayers = 12.0 * 12 * 768 * 768, kAttention = 12.0 * 4 * 768 * kLength;
  return {
      .name = "encoder_bert",
      .operations = kRows * kLength * (2 * kLayers + kAttention),
      .tokens = kRows * kLength,
      .slow = true,
      .prepare = [] {
        Rng rng{1};
        std::shared_ptr<Encoder> model = on_bench_device(Encoder::create(
            {.vocab_size = 30522, .labels = {"a", "b"}, .context = 512, .dim = 768, .heads = 12, .layers = 12}, rng));
        Prepared prepared;
        prepared.run = [model, ids = made_up_ids({kRows, kLength}, 30522)] {
          const NoGrad no_grad;
          return Results{model->hidden({.ids = ids})};
        };
        return prepared;
      }};
}

}  // namespace

std::vector<Workload> inference_workloads() {
  using enum WeightFormat;
  std::vector<Workload> result;
  for (const WeightFormat format : {f32, bf16, int8}) result.push_back(decode_workload(format));
  for (const WeightFormat format : {f32, bf16, int8}) result.push_back(decode_many_workload(format));
  for (const WeightFormat format : {f32, bf16, int8}) result.push_back(prompt_workload(format, Precision::f32));
  if (has_bf16()) result.push_back(prompt_workload(bf16, Precision::bf16));
  for (const WeightFormat format : {f32, int8}) {
    result.push_back(translate_workload("translate_base", 1, format));
    result.push_back(translate_workload("translate_base_beam4", 4, format));
  }
  result.push_back(encoder_workload());
  return result;
}

/// The generation lines of docs/gpu.md.
std::vector<Workload> gpu_inference_workloads() {
  using enum WeightFormat;
  std::vector<Workload> result;
  for (const int64_t rows : {1, 64}) {
    for (const WeightFormat format : {f32, bf16}) result.push_back(generate_workload(rows, format));
    result.push_back(steps_workload(rows));
  }
  return result;
}

}  // namespace attend::cli
