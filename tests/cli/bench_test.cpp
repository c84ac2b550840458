// Runs `attend bench` on its quickest workload and checks its output, not its speed.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "backend/cpu/instruction_set.h"
#include "testing/pretend_device.h"
#include "testing/process.h"

namespace attend {
namespace {

using testing::Finished;

Finished bench(std::vector<std::string> words, const testing::ProcessOptions& options = {}) {
  words.insert(words.begin(), {ATTEND_BINARY_DIR "/attend", "bench"});
  return testing::run(words, options);
}

std::set<std::string> listed(std::vector<std::string> words) {
  words.push_back("--list");
  const Finished result = bench(words);
  EXPECT_EQ(result.code, 0) << result.err;
  std::istringstream lines(result.out);
  return {std::istream_iterator<std::string>(lines), {}};
}

TEST(Bench, ListsAsJson) {
  const Finished result = bench({"--list", "--json", "--all"});
  EXPECT_EQ(result.code, 0) << result.err;
  std::set<std::string> names, slow;
  for (const auto& one : nlohmann::json::parse(result.out)) {
    names.insert(one["name"].get<std::string>());
    if (one["slow"]) slow.insert(one["name"].get<std::string>());
  }
  EXPECT_EQ(names, listed({"--all"}));
  EXPECT_TRUE(slow.contains("attention_memory"));
  EXPECT_FALSE(slow.contains("linear"));
}

TEST(Bench, ListsTheWorkloadsOfAGpuOnlyWithOne) {
  const testing::ProcessOptions gpu{.environment = {{"ATTEND_CUDA_PLUGIN", testing::kPretendPlugin}}};
  const Finished result = bench({"--list", "--all", "--device", "cuda"}, gpu);
  EXPECT_EQ(result.code, 0) << result.err;
  const std::set<std::string> on_cpu = listed({"--all", "--device", "cpu"});
  for (const char* name :
       {"attention_forward_bf16_d128_16k", "attention_backward_bf16_d128_16k_causal",
        "attention_forward_bf16_d64_8k_dropout", "attention_weights_bf16_d64_8k", "train_gpt2_32x1024_bf16",
        "train_base_128x64_bf16", "train_tiny_273x15_bf16", "train_characters_64x256_bf16", "generate_gpt2_64_bf16"}) {
    EXPECT_NE(result.out.find(std::string(name) + "\n"), std::string::npos) << name;
    EXPECT_FALSE(on_cpu.contains(name)) << name;
  }
}

TEST(Bench, ListsEveryWorkload) {
  const std::set<std::string> names = listed({});
  for (const char* name : {"attention_forward",
                           "attention_forward_causal",
                           "attention_backward",
                           "attention_backward_causal",
                           "attention_forward_d128",
                           "attention_decode",
                           "attention_weights",
                           "linear",
                           "layer_norm",
                           "gelu",
                           "softmax",
                           "cross_entropy",
                           "train_transformer",
                           "attention_forward_mask",
                           "attention_forward_bias",
                           "attention_backward_padding",
                           "attention_forward_window",
                           "attention_forward_alibi",
                           "attention_backward_softcap",
                           "attention_forward_dropout",
                           "attention_forward_gqa",
                           "attention_forward_varlen"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
  EXPECT_FALSE(names.contains("attention_memory"));
  const std::set<std::string> all = listed({"--all"});
  for (const char* name :
       {"attention_memory", "train_gpt2", "decode_gpt2", "decode_gpt2_bf16", "decode_gpt2_int8", "decode_gpt2_64",
        "prompt_gpt2", "prompt_gpt2_bf16", "prompt_gpt2_int8", "translate_base", "translate_base_int8",
        "translate_base_beam4", "translate_base_beam4_int8", "encoder_bert"}) {
    EXPECT_TRUE(all.contains(name)) << name;
    EXPECT_FALSE(names.contains(name)) << name;
  }
}

TEST(Bench, JsonHasTheRequestedWorkload) {
  const Finished result = bench({"softmax", "--json", "--threads", "1"});
  ASSERT_EQ(result.code, 0) << result.err;
  const auto report = nlohmann::json::parse(result.out);
  EXPECT_GT(report["peak_gflops"].get<double>(), 0);
  EXPECT_GT(report["bandwidth_gbs"].get<double>(), 0);
  EXPECT_EQ(report["threads"], 1);
  EXPECT_EQ(report["instruction_set"], cpu::name_of(cpu::instruction_set()));
  ASSERT_EQ(report["results"].size(), 1u);
  const auto& row = report["results"][0];
  EXPECT_EQ(row["name"], "softmax");
  for (const char* key : {"gflops", "gbs", "share", "seconds"}) EXPECT_GT(row[key].get<double>(), 0) << key;
  EXPECT_TRUE(row["extra_bytes"].is_number_unsigned());
}

TEST(Bench, TrainingCountsTokens) {
  const Finished result = bench({"train_transformer", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const auto row = nlohmann::json::parse(result.out)["results"][0];
  EXPECT_EQ(row["share_of"], "peak");
  EXPECT_NEAR(row["tokens_per_second"].get<double>() * row["seconds"].get<double>(), 273 * 15 - 69, 1e-6);
  EXPECT_NEAR(row["gflops"].get<double>() * row["seconds"].get<double>(), 6e-9 * 2605056 * 273 * 15, 1e-6);
}

TEST(Bench, SaysWhichInstructionSetItUses) {
  if (!cpu::may_use(cpu::InstructionSet::sse4)) GTEST_SKIP() << "this processor has no set that ATTEND_CPU can name";
  const Finished result = bench({"softmax", "--threads", "1"}, {.environment = {{"ATTEND_CPU", "sse4"}}});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(testing::lines_of(result.out)[0], "instruction set: sse4");
}

TEST(Bench, UnknownNamesAreOneLineAndExit2) {
  const Finished result = bench({"softmax", "nonsense"});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err.find("attend: bench: unknown workload 'nonsense'; expected one of attention_forward, "), 0u)
      << result.err;
  EXPECT_EQ(std::ranges::count(result.err, '\n'), 1);
}

TEST(Bench, RingAgreesWithAttentionInOneCall) {
  const Finished result = bench({"ring", "--tokens", "300", "--heads", "2", "--dim", "16", "--check", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const auto report = nlohmann::json::parse(result.out);
  EXPECT_EQ(report["tokens"], 300);
  EXPECT_EQ(report["processes"], 1);
  EXPECT_GT(report["backward"]["seconds"], 0);
  EXPECT_EQ(report["forward"]["ring_seconds"], 0);
  EXPECT_GT(report["extra_bytes"], 0);
  EXPECT_LT(report["output_difference"], 1e-6);
  EXPECT_LT(report["gradient_difference"], 4e-6);
  const Finished text = bench({"ring", "--tokens", "2"});
  EXPECT_EQ(text.out.find("ring attention: 2 tokens over 1 process, 2 each, 1 head of 64, "), 0u) << text.out;
}

TEST(Bench, OptionsOfTheRingNeedTheRing) {
  EXPECT_NE(bench({"softmax", "--tokens", "8"}).err.find("apply only to bench ring"), std::string::npos);
  EXPECT_NE(bench({"softmax", "ring"}).err.find("cannot be combined with other workloads"), std::string::npos);
  EXPECT_EQ(bench({"ring", "--tokens", "0"}).code, 2);
}

}  // namespace
}  // namespace attend
