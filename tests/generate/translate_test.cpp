#include "attend/generate/translate.h"

#include <gtest/gtest.h>

#include "attend/autograd/autograd.h"
#include "attend/base/error.h"
#include "attend/optim/adam.h"
#include "attend/tensor/creation.h"
#include "generate/byte_tokenizer.h"
#include "generate/tiny_models.h"

namespace attend {
namespace {

using testing::ByteTokenizer;
using testing::tiny_model;

class Translating : public ::testing::Test {
 protected:
  ByteTokenizer tokenizer_;
  std::unique_ptr<Model> model_ = tiny_model("transformer", tokenizer_.size());
  const PairModel& pair_ = dynamic_cast<const PairModel&>(*model_);
};

TEST_F(Translating, ResultsComeInTheOrderOfTheLines) {
  const std::vector<std::string> lines{"a long line that takes its time", "", "b", "今天天气很好", "b", ""};
  std::vector<int64_t> order;
  const auto all = translate(pair_, tokenizer_, lines, {.beam = 2, .n_best = 2, .max_length = 8, .batch_tokens = 40},
                             [&](const TranslatedLine& line) { order.push_back(line.index); });
  EXPECT_EQ(order, (std::vector<int64_t>{0, 1, 2, 3, 4, 5}));
  ASSERT_EQ(all.size(), 6u);
  EXPECT_EQ(all[1].best.size(), 1u);
  EXPECT_EQ(all[1].best[0].text, "");
  EXPECT_EQ(all[1].best[0].tokens, 0);
  EXPECT_EQ(all[1].source_tokens, 0);
  EXPECT_EQ(all[3].source_tokens, 19);
  EXPECT_EQ(all[2].best.size(), 2u);
  EXPECT_EQ(all[2].best[0].text, all[4].best[0].text);
  EXPECT_EQ(all[2].best[0].log_probability, all[4].best[0].log_probability);
  EXPECT_GT(all[0].best[0].tokens, 0);
  EXPECT_EQ(translate(pair_, tokenizer_, {}).size(), 0u);
}

TEST_F(Translating, LongSourcesAreTruncatedAndReported) {
  const std::string line(100, 'x');
  const auto all = translate(pair_, tokenizer_, std::vector{line, line.substr(0, 63)}, {.max_length = 3});
  EXPECT_TRUE(all[0].is_source_cut);
  EXPECT_EQ(all[0].source_tokens, 64);
  EXPECT_FALSE(all[1].is_source_cut);
  EXPECT_EQ(all[1].source_tokens, 64);
  EXPECT_EQ(all[0].best[0].text, all[1].best[0].text);
}

TEST_F(Translating, RefusesInvalidUtf8) {
  EXPECT_THROW(translate(pair_, tokenizer_, std::vector<std::string>{"ab\xff"}), FormatError);
}

TEST_F(Translating, GivesTheLearnedTranslation) {
  const std::vector<std::pair<std::string, std::string>> pairs{{"three", "drei"}, {"四", "vier"}, {"five", "五"}};
  Adam adam(model_->parameters(), {.lr = 3e-3});
  for (int step = 0; step < 150; ++step) {
    for (const auto& [from, into] : pairs) {
      auto source = tokenizer_.encode(from, false), target = tokenizer_.encode(into, false);
      source.push_back(3);
      std::vector<int64_t> read{2}, labels(target.begin(), target.end());
      read.insert(read.end(), target.begin(), target.end());
      labels.push_back(3);
      const auto count = std::ssize(read);
      const Tensor hidden =
          pair_.hidden({.source = tensor<int64_t>({source.begin(), source.end()}, {1, std::ssize(source)}),
                        .source_lengths = {},
                        .target = tensor(read, {1, count})});
      backward(pair_.head().loss(hidden, tensor(labels, {1, count})));
    }
    adam.step();
    for (const auto& [name, parameter] : model_->parameters()) zero_grad(parameter);
  }
  for (const SearchOptions& options :
       {SearchOptions{}, SearchOptions{.beam = 4}, SearchOptions{.beam = 3, .use_cache = false}}) {
    const auto all = translate(pair_, tokenizer_, std::vector<std::string>{"three", "四", "five"}, options);
    for (size_t i = 0; i < pairs.size(); ++i) {
      EXPECT_EQ(all[i].best[0].text, pairs[i].second);
      EXPECT_GT(all[i].best[0].log_probability, -0.5);
      EXPECT_EQ(all[i].best[0].tokens, std::ssize(pairs[i].second) + 1);
    }
  }
}

}  // namespace
}  // namespace attend
