// Tests of the checker itself: it must reject wrong cases.

#include <sys/wait.h>

#include <cmath>
#include <cstdio>
#include <fstream>

#include "attend/io/safetensors.h"
#include "backend/cpu/instruction_set.h"
#include "testing/gradients.h"
#include "testing/temporary_folder.h"

namespace attend {
namespace {

struct Outcome {
  int status = -1;
  std::string output;
};

Outcome goldens(const std::string& arguments) {
  Outcome result;
  FILE* pipe = popen((std::string(ATTEND_BINARY_DIR) + "/goldens " + arguments + " 2>&1").c_str(), "r");
  char buffer[512];
  while (pipe && std::fgets(buffer, sizeof buffer, pipe)) result.output += buffer;
  if (pipe) result.status = WEXITSTATUS(pclose(pipe));
  return result;
}

/// The last line of a run.
std::string counted(int passed, int failed) {
  return std::to_string(passed) + " passed, " + std::to_string(failed) + " failed on " +
         cpu::name_of(cpu::instruction_set()) + "\n";
}

/// y = relu(x) with its gradient: a passing case, which each test breaks in one way.
struct ReluCase {
  std::map<std::string, Tensor> tensors{{"in.x", tensor<float>({-1, 2}, {2})},
                                        {"out.y", tensor<float>({0, 2}, {2})},
                                        {"grad.y", tensor<float>({5, 7}, {2})},
                                        {"grad.x", tensor<float>({0, 7}, {2})}};
  Metadata metadata{{"op", "activation"}, {"options", R"({"kind": "relu"})"}, {"rtol", "1e-5"}};

  Outcome check() const {
    const testing::TemporaryFolder folder;
    const std::vector<NamedTensor> list(tensors.begin(), tensors.end());
    write_safetensors(folder.file("case.safetensors"), list, metadata);
    return goldens(folder.path());
  }
  void expect_failure(const std::string& reason) const {
    const Outcome run = check();
    EXPECT_EQ(run.status, 1);
    EXPECT_NE(run.output.find("case.safetensors: " + reason), std::string::npos) << run.output;
    EXPECT_TRUE(run.output.ends_with("\n" + counted(0, 1))) << run.output;
  }
};

TEST(Goldens, PassesACorrectCase) {
  const Outcome run = ReluCase{}.check();
  EXPECT_EQ(run.status, 0);
  EXPECT_EQ(run.output, counted(1, 0));
}

TEST(Goldens, ComparesOutputsAndGradients) {
  ReluCase wrong;
  wrong.tensors["out.y"] = tensor<float>({0, 2.5}, {2});
  wrong.expect_failure("out.y is off by 0.5, allowed 2.6e-05");
  wrong = {};
  wrong.tensors["grad.x"] = tensor<float>({1, 7}, {2});
  wrong.expect_failure("grad.x is off by 1, allowed 7.4e-05");
  wrong = {};
  wrong.tensors["out.y"] = zeros({2, 1});
  wrong.expect_failure("out.y: expected shape [2, 1], got [2]");
}

/// In addition to the relative tolerance, a value may differ by 1e-6 and a gradient by 4e-6.
TEST(Goldens, GradientsMayCancel) {
  ReluCase near;
  near.metadata["rtol"] = "0";
  near.tensors["grad.x"] = tensor<float>({3e-6f, 7}, {2});
  EXPECT_EQ(near.check().status, 0);
  near.tensors["grad.x"] = tensor<float>({5e-6f, 7}, {2});
  near.expect_failure("grad.x is off by 5e-06, allowed 4e-06");
  near.tensors["grad.x"] = tensor<float>({0, 7}, {2});
  near.tensors["out.y"] = tensor<float>({3e-6f, 2}, {2});
  near.expect_failure("out.y is off by 3e-06, allowed 1e-06");
}

TEST(Goldens, NanNeverPasses) {
  ReluCase wrong;
  wrong.tensors["in.x"] = tensor<float>({NAN, 2}, {2});
  wrong.expect_failure("out.y is off by nan");
}

TEST(Goldens, UnusedEntriesFail) {
  ReluCase wrong;
  wrong.tensors["out.z"] = zeros({2});
  wrong.expect_failure("nothing checks out.z");
  wrong = {};
  wrong.tensors["grad.w"] = zeros({2});
  wrong.expect_failure("nothing checks grad.w");
  wrong = {};
  wrong.tensors["in.mask"] = zeros({2});
  wrong.expect_failure("nothing checks in.mask");
  wrong = {};
  wrong.tensors.erase("grad.y");  // without it no gradient can be computed
  wrong.expect_failure("grad.x: is expected, but no gradient was computed");
  wrong = {};
  wrong.metadata["options"] = R"({"kind": "relu", "slope": 0.1, "inplace": false, "beta": null})";
  wrong.expect_failure("unknown option slope");
}

TEST(Goldens, UnknownOpsFail) {
  ReluCase wrong;
  wrong.metadata["op"] = "convolution";
  wrong.expect_failure("unknown op 'convolution'");
  wrong.metadata.erase("op");
  wrong.expect_failure("unknown op ''");
}

/// A tokenizer of two letters with one case, which each test breaks in one way.
struct TokenizerCase {
  std::string ids = "[0, 1]", decoded = "a b";

  Outcome check() const {
    const testing::TemporaryFolder folder;
    std::ofstream(folder.file("tokenizer.json"))
        << R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}})";
    std::ofstream(folder.file("tokenizer_cases.json"))
        << R"({"cases": [{"text": "ab", "ids_no_special": )" << ids << R"(, "tokens": ["a", "b"], "decoded": ")"
        << decoded << "\"}]}";
    write_safetensors(folder.file("model.safetensors"), std::vector<NamedTensor>{{"x", zeros({1})}}, {});
    return goldens(folder.path());
  }
};

TEST(Goldens, ChecksTokenizers) {
  EXPECT_EQ(TokenizerCase{}.check().output, counted(1, 0)) << "weights are not a case";
  const Outcome wrong = TokenizerCase{.ids = "[0, 0]"}.check();
  EXPECT_EQ(wrong.status, 1);
  EXPECT_NE(wrong.output.find("ids_no_special of \"ab\": expected [0,0], got [0,1]"), std::string::npos)
      << wrong.output;
  EXPECT_TRUE(wrong.output.ends_with("\n" + counted(0, 1)));
  EXPECT_EQ((TokenizerCase{.decoded = "ab"}.check().status), 1);
}

TEST(Goldens, ReportsSkippedCases) {
  const testing::TemporaryFolder folder;
  std::ofstream(folder.file("x.golden.json")) << R"({"cases": []})";
  const Outcome run = goldens(folder.path());
  EXPECT_NE(run.output.find("SKIPPED " + folder.file("x.golden.json") + ": there is no x.model beside it"),
            std::string::npos)
      << run.output;
  EXPECT_EQ(run.status, 1) << "nothing passed";
}

TEST(Goldens, UsageAndNothingFound) {
  EXPECT_EQ(goldens("").status, 2);
  EXPECT_EQ(goldens("--verbose").status, 2);
  EXPECT_EQ(goldens("--help").status, 0);
  EXPECT_EQ(goldens("--instruction-set").output, std::string(cpu::name_of(cpu::instruction_set())) + "\n");
  const testing::TemporaryFolder folder;
  const Outcome run = goldens(folder.path());
  EXPECT_EQ(run.status, 1);
  EXPECT_TRUE(run.output.ends_with(counted(0, 0))) << run.output;
  EXPECT_EQ(goldens(folder.file("absent")).status, 1);
}

}  // namespace
}  // namespace attend
