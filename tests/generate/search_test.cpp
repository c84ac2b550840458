#include "attend/generate/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "attend/base/error.h"
#include "attend/base/threads.h"
#include "attend/ops/softmax.h"
#include "attend/tensor/creation.h"
#include "generate/byte_tokenizer.h"
#include "generate/tiny_models.h"

namespace attend {
namespace {

using testing::ByteTokenizer;
using testing::random_sources;
using testing::tiny_model;
using Results = std::vector<std::vector<Hypothesis>>;

Results search_all(const PairModel& model, const Tokenizer& tokenizer, const std::vector<std::vector<int32_t>>& sources,
                   const SearchOptions& options) {
  Results results(sources.size());
  search(model, tokenizer, sources, options, [&](int64_t index, std::vector<Hypothesis> best) {
    EXPECT_TRUE(results[static_cast<size_t>(index)].empty()) << "called back twice";
    results[static_cast<size_t>(index)] = std::move(best);
  });
  return results;
}

/// log p of ids and the end token, computed in one pass.
double whole_log_probability(const PairModel& model, const std::vector<int32_t>& source, std::vector<int32_t> ids) {
  std::vector<int64_t> read{2};
  read.insert(read.end(), ids.begin(), ids.end());
  ids.push_back(3);
  const auto count = std::ssize(read);
  const Tensor hidden =
      model.hidden({.source = tensor<int64_t>({source.begin(), source.end()}, {1, std::ssize(source)}),
                    .source_lengths = {},
                    .target = tensor<int64_t>(read, {1, count})});
  const auto logs = log_softmax(model.head().logits(hidden)).to_vector<double>();
  double total = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    total += logs[i * static_cast<size_t>(model.vocab_size()) + static_cast<size_t>(ids[i])];
  }
  return total;
}

/// Every sequence of the tokens 5, 6, 7 up to a length, best first.
std::vector<Hypothesis> all_hypotheses(const PairModel& model, const std::vector<int32_t>& source, size_t longest,
                                       double length_penalty) {
  std::vector<Hypothesis> all;
  std::vector<std::vector<int32_t>> open{{}};
  for (size_t length = 0; length <= longest; ++length) {
    std::vector<std::vector<int32_t>> longer;
    for (const auto& ids : open) {
      const double log_probability = whole_log_probability(model, source, ids);
      all.push_back({.ids = ids,
                     .log_probability = log_probability,
                     .score = log_probability / std::pow(static_cast<double>(length + 1), length_penalty),
                     .is_cut = length == longest});
      for (int32_t id = 5; id < 8; ++id) {
        longer.push_back(ids);
        longer.back().push_back(id);
      }
    }
    open = std::move(longer);
  }
  std::ranges::sort(all, [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; });
  return all;
}

TEST(Search, AWideBeamEqualsExhaustiveSearch) {
  const ByteTokenizer tokenizer(3, 'a');
  for (const char* architecture : {"transformer", "rnn-attention"}) {
    const auto model = tiny_model(architecture, tokenizer.size());
    const auto& pair = dynamic_cast<const PairModel&>(*model);
    for (const auto& source : random_sources(3, 5, 5, 3)) {
      for (const double length_penalty : {0.0, 0.6, 1.0, -0.5}) {
        const auto expected = all_hypotheses(pair, source, 4, length_penalty);
        const SearchOptions options{.beam = 128, .length_penalty = length_penalty, .n_best = 12, .max_length = 4};
        const auto found = search_all(pair, tokenizer, {source}, options)[0];
        ASSERT_EQ(found.size(), 12u);
        for (size_t i = 0; i < found.size(); ++i) {
          EXPECT_EQ(found[i].ids, expected[i].ids) << architecture << ' ' << length_penalty << " rank " << i;
          EXPECT_NEAR(found[i].score, expected[i].score, 1e-4);
          EXPECT_NEAR(found[i].log_probability, expected[i].log_probability, 1e-4);
          EXPECT_EQ(found[i].is_cut, expected[i].is_cut);
        }
      }
    }
  }
}

class EveryPairModel : public ::testing::TestWithParam<const char*> {
 protected:
  ByteTokenizer tokenizer_{20, 'a'};
  std::unique_ptr<Model> model_ = tiny_model(GetParam(), tokenizer_.size());
  const PairModel& pair_ = dynamic_cast<const PairModel&>(*model_);
  std::vector<std::vector<int32_t>> sources_ = random_sources(24, 12, 5, 20);

  void SetUp() override { testing::teach_copying(pair_, sources_); }

  void expect_same(const Results& a, const Results& b) {
    for (size_t i = 0; i < a.size(); ++i) {
      ASSERT_EQ(a[i].size(), b[i].size());
      for (size_t n = 0; n < a[i].size(); ++n) {
        EXPECT_EQ(a[i][n].ids, b[i][n].ids) << "source " << i << " rank " << n;
        EXPECT_NEAR(a[i][n].score, b[i][n].score, 1e-4);
        EXPECT_EQ(a[i][n].is_cut, b[i][n].is_cut);
      }
    }
  }
};

TEST_P(EveryPairModel, NeitherBatchesNorTheCacheMatter) {
  std::vector<SearchOptions> ways{
      {}, {.beam = 4, .n_best = 3}, {.beam = 3, .length_penalty = 0.3, .stop = SearchStop::eager}};
  ways.push_back({.n_best = 2, .sampling = SamplingOptions{.top_k = 8, .repetition_penalty = 1.2, .seed = 5}});
  for (SearchOptions options : ways) {
    options.max_length = 16;
    const Results together = search_all(pair_, tokenizer_, sources_, options);
    std::set<size_t> lengths;
    for (const auto& best : together) lengths.insert(best[0].ids.size());
    EXPECT_GE(lengths.size(), 4u) << "texts that all end alike test little";
    options.batch_tokens = 1;
    expect_same(together, search_all(pair_, tokenizer_, sources_, options));
    options.use_cache = false;
    options.batch_tokens = 300;
    expect_same(together, search_all(pair_, tokenizer_, sources_, options));
  }
}

TEST_P(EveryPairModel, SameBitsOnAnyNumberOfThreads) {
  const int before = threads();
  for (const SearchOptions& options :
       {SearchOptions{.beam = 4}, SearchOptions{.sampling = SamplingOptions{.top_p = 0.9}}}) {
    set_threads(1);
    const Results one = search_all(pair_, tokenizer_, sources_, options);
    set_threads(2);
    const Results two = search_all(pair_, tokenizer_, sources_, options);
    for (size_t i = 0; i < one.size(); ++i) {
      EXPECT_EQ(one[i][0].ids, two[i][0].ids);
      EXPECT_EQ(one[i][0].log_probability, two[i][0].log_probability);
    }
  }
  set_threads(before);
}

TEST_P(EveryPairModel, LogProbabilitiesEqualThoseOfOnePass) {
  for (const SearchOptions& options : {SearchOptions{.beam = 5, .n_best = 5},
                                       SearchOptions{.n_best = 3, .sampling = SamplingOptions{.temperature = 0.7}}}) {
    const Results results = search_all(pair_, tokenizer_, sources_, options);
    for (size_t i = 0; i < 6; ++i) {
      for (const Hypothesis& h : results[i]) {
        EXPECT_NEAR(h.log_probability, whole_log_probability(pair_, sources_[i], h.ids), 2e-4);
        EXPECT_NEAR(h.score, h.log_probability / static_cast<double>(h.ids.size() + 1), 1e-9);
      }
    }
  }
}

TEST_P(EveryPairModel, ABeamOfOneTakesTheBestTokenAtEachStep) {
  const Results greedy = search_all(pair_, tokenizer_, sources_, {.max_length = 9});
  for (size_t i = 0; i < 5; ++i) {
    std::vector<int32_t> ids;
    while (ids.size() < 9) {
      double best = -INFINITY;
      int32_t word = 3;
      for (int32_t id = 3; id < 25; ++id) {
        if (id == 4) continue;
        std::vector<int64_t> read{2};
        read.insert(read.end(), ids.begin(), ids.end());
        const Tensor source = tensor<int64_t>({sources_[i].begin(), sources_[i].end()}, {1, std::ssize(sources_[i])});
        const auto logits =
            pair_.head()
                .logits(pair_.hidden(
                    {.source = source, .source_lengths = {}, .target = tensor(read, {1, std::ssize(read)})}))
                .to_vector<double>();
        const double value = logits[logits.size() - 25 + static_cast<size_t>(id)];
        if (value > best) best = value, word = id;
      }
      if (word == 3) break;
      ids.push_back(word);
    }
    EXPECT_EQ(greedy[i][0].ids, ids);
    EXPECT_EQ(greedy[i][0].is_cut, ids.size() == 9);
  }
}

TEST_P(EveryPairModel, StoppingEarlyNeverChangesTheBest) {
  for (const double length_penalty : {0.0, 0.7, 1.0, 2.0}) {
    const Results one = search_all(pair_, tokenizer_, sources_, {.beam = 4, .length_penalty = length_penalty});
    const Results four =
        search_all(pair_, tokenizer_, sources_, {.beam = 4, .length_penalty = length_penalty, .n_best = 4});
    for (size_t i = 0; i < one.size(); ++i) {
      EXPECT_EQ(one[i][0].ids, four[i][0].ids);
      EXPECT_TRUE(std::ranges::is_sorted(four[i], std::ranges::greater{}, &Hypothesis::score));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, EveryPairModel, ::testing::Values("rnn", "rnn-attention", "transformer"),
                         [](const auto& model) {
                           std::string name = model.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST(Search, NeverGeneratesSpecialTokensNorExceedsItsLimits) {
  const ByteTokenizer tokenizer(20, 'a');
  const auto model = tiny_model("transformer", tokenizer.size() + 3, {{"context", "14"}});  // 3 rows without a token
  const auto& pair = dynamic_cast<const PairModel&>(*model);
  const auto sources = random_sources(30, 12, 5, 20);
  for (const SearchOptions& options : {SearchOptions{.beam = 6, .n_best = 6}, SearchOptions{.max_length = 5},
                                       SearchOptions{.n_best = 4, .sampling = SamplingOptions{.temperature = 3}}}) {
    for (const auto& best : search_all(pair, tokenizer, sources, options)) {
      for (const Hypothesis& h : best) {
        EXPECT_LE(h.ids.size(), options.max_length > 0 ? 5u : 13u);
        for (const int32_t id : h.ids) EXPECT_TRUE(id >= 5 && id < 25) << id;
      }
    }
  }
}

TEST(Search, SamplesOfOneSourceDifferAndTheSeedDecides) {
  const ByteTokenizer tokenizer(20, 'a');
  const auto model = tiny_model("transformer", tokenizer.size());
  const auto& pair = dynamic_cast<const PairModel&>(*model);
  const std::vector<std::vector<int32_t>> sources{{5, 6, 7, 3}, {5, 6, 7, 3}};
  SearchOptions options{.n_best = 3, .sampling = SamplingOptions{.temperature = 2, .seed = 1}};
  const Results a = search_all(pair, tokenizer, sources, options);
  EXPECT_NE(a[0][0].ids, a[0][1].ids);
  EXPECT_NE(a[0][0].ids, a[1][0].ids);
  options.first_index = 1;  // the index of the second source
  EXPECT_EQ(search_all(pair, tokenizer, {sources[1]}, options)[0][2].ids, a[1][2].ids);
  options.first_index = 0;
  options.sampling->seed = 2;
  EXPECT_NE(search_all(pair, tokenizer, sources, options)[0][0].ids, a[0][0].ids);
}

TEST(Search, RefusesInvalidOptions) {
  const ByteTokenizer tokenizer(20, 'a');
  const auto model = tiny_model("transformer", 25, {{"context", "8"}});
  const auto& pair = dynamic_cast<const PairModel&>(*model);
  const auto refuses = [&](const std::vector<int32_t>& source, const SearchOptions& options) {
    EXPECT_THROW(search_all(pair, tokenizer, {source}, options), ShapeError);
  };
  refuses({5, 3}, {.beam = 0});
  refuses({5, 3}, {.beam = 2, .n_best = 3});
  refuses({5, 3}, {.max_length = -1});
  refuses({5, 3}, {.batch_tokens = 0});
  refuses({5, 3}, {.length_penalty = NAN});
  refuses({5, 3}, {.sampling = SamplingOptions{.top_p = 2}});
  refuses({5, 5, 5, 5, 5, 5, 5, 5, 3}, {});
  EXPECT_THROW(search_all(pair, ByteTokenizer(30), {{5, 3}}, {}), FormatError);
}

}  // namespace
}  // namespace attend
