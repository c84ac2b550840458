// --device and `attend info --devices`, with the plug-in of tests/testing/pretend_cuda.cpp.
#include "attend/io/safetensors.h"
#include "testing/pretend_device.h"
#include "train_testing.h"

namespace attend {
namespace {

using namespace testing;  // NOLINT: test helpers

Finished attend_command(Words words, const ProcessOptions& options = {}) {
  words.insert(words.begin(), ATTEND_BINARY_DIR "/attend");
  return run(words, options);
}

/// With two pretended GPUs, and a fault of tests/testing/pretend_cuda.cpp.
ProcessOptions with_gpus(const std::string& fault = "") {
  return {.environment = {{"ATTEND_CUDA_PLUGIN", kPretendPlugin}, {"ATTEND_PRETEND", fault}}};
}
const ProcessOptions kNoPlugin{.environment = {{"ATTEND_CUDA_PLUGIN", "/nowhere/libattend-cuda.so"}}};

Words job(const TemporaryFolder& folder, const Words& more = {}) {
  const std::string pairs = save(folder, "pairs.tsv", reversed_digits(100));
  return Words{"transformer", pairs, "-o", folder.file("m"), "--overwrite"} + kTinyTransformer +
         Words{"--steps", "6", "--batch-tokens", "256"} + more;
}

TEST(Devices, AreListed) {
  const Finished result = attend_command({"info", "--devices"}, with_gpus());
  EXPECT_EQ(result.code, 0) << result.err;
  const Words lines = lines_of(result.out);
  ASSERT_EQ(lines.size(), 3u) << result.out;
  EXPECT_TRUE(lines[0].starts_with("cpu     ")) << lines[0];
  EXPECT_EQ(lines[1], "cuda:0  Pretend GPU, 4.0 GiB free of 4.0 GiB, compute capability 9.0, driver 0.0 (pretend)");
  const auto json = nlohmann::json::parse(attend_command({"info", "--devices", "--json"}, with_gpus()).out);
  ASSERT_EQ(json["devices"].size(), 3u);
  EXPECT_EQ(json["devices"][0]["device"], "cpu");
  EXPECT_GT(json["devices"][0]["total_memory"], json["devices"][0]["free_memory"]);
  EXPECT_EQ(json["devices"][2], (nlohmann::json{{"device", "cuda:1"},
                                                {"name", "Pretend GPU"},
                                                {"total_memory", int64_t{4} << 30},
                                                {"free_memory", int64_t{4} << 30},
                                                {"compute_capability", "9.0"},
                                                {"driver", "0.0 (pretend)"},
                                                {"problem", nullptr}}));
  EXPECT_EQ(json["problem"], nullptr);
}

TEST(Devices, TheListSaysWhyThereIsNoGpu) {
  const Finished missing = attend_command({"info", "--devices"}, kNoPlugin);
  EXPECT_EQ(missing.code, 0);
  ASSERT_EQ(lines_of(missing.out).size(), 2u) << missing.out;
  EXPECT_TRUE(lines_of(missing.out)[1].starts_with(
      "No GPU can be used: cuda: ATTEND_CUDA_PLUGIN: /nowhere/libattend-cuda.so: cannot open"))
      << missing.out;
  const auto json = nlohmann::json::parse(attend_command({"info", "--devices", "--json"}, with_gpus("no_gpu")).out);
  EXPECT_EQ(json["devices"].size(), 1u);
  EXPECT_EQ(json["problem"], "cuda: there is a driver, but no NVIDIA GPU");
  const Finished busy = attend_command({"info", "--devices"}, with_gpus("busy"));
  EXPECT_EQ(busy.code, 0);
  EXPECT_EQ(lines_of(busy.out).size(), 5u) << busy.out;
  EXPECT_NE(busy.out.find("        cannot be used: cuda:1: the GPU is busy"), std::string::npos) << busy.out;
}

TEST(Devices, AModelAndDevicesAreOneOrTheOther) {
  EXPECT_EQ(attend_command({"info"}).err, "attend: expected either MODEL or --devices; see attend info --help\n");
  expect_one_line(attend_command({"info", "m", "--devices"}), 2);
}

TEST(Devices, EveryCommandThatComputesHasTheOption) {
  for (const char* command : {"train", "translate", "generate", "classify", "embed", "score", "evaluate", "compare",
                              "inspect", "view", "bench", "demo", "fill"}) {
    EXPECT_NE(attend_command({command, "--help"}).out.find("\n  --device NAME "), std::string::npos) << command;
  }
}

TEST(Devices, TheTypeOfACacheAndGuessesForTheCpu) {
  const TemporaryFolder folder;
  ASSERT_EQ(train(job(folder, {"--quiet", "--device", "cpu"})).code, 0);
  const auto translated = [&](const Words& more) {
    return attend_command(Words{"translate", folder.file("m"), "1 2 3", "--device"} + more, with_gpus());
  };
  const Finished plain = translated({"cuda"});
  EXPECT_EQ(plain.code, 0) << plain.err;
  EXPECT_EQ(translated({"cuda", "--cache", "f32"}).out, plain.out);
  EXPECT_EQ(translated({"cuda", "--cache", "bf16"}).code, 0);
  const Finished host = translated({"cpu"});
  EXPECT_EQ(translated({"cpu", "--cache", "f32"}).out, host.out);
  EXPECT_EQ(translated({"cpu", "--cache", "bf16"}).code, 0);
  expect_one_line(translated({"cuda", "--cache", "bf16", "--no-cache"}), 2);
  expect_one_line(translated({"cuda", "--cache", "int8"}), 2);
  EXPECT_EQ(translated({"cuda", "--draft", "0"}).out, plain.out);
  const Finished guessing = translated({"cuda", "--draft", "4"});
  expect_one_line(guessing, 2);
  EXPECT_NE(guessing.err.find("--draft needs the CPU: on a GPU, no tokens are guessed"), std::string::npos);
  expect_one_line(translated({"cpu", "--draft", "4", "--no-cache"}), 2);
}

TEST(Devices, TheTypeOfACacheNeedsACache) {
  const TemporaryFolder folder;
  const std::string pairs = save(folder, "pairs.tsv", reversed_digits(100));
  const auto trained = [&](const std::string& kind, const Words& shape) {
    const Finished result =
        train(Words{kind, pairs, "-o", folder.file(kind), "--steps", "2", "--quiet", "--device", "cpu"} + shape);
    EXPECT_EQ(result.code, 0) << result.err;
    return folder.file(kind);
  };
  const std::string with = trained("transformer", kTinyTransformer), without = trained("rnn", kTinyRnn);
  const std::string problem = without + ": this model keeps no keys and values; see attend ";
  for (const Words& command :
       {Words{"translate", without, "1 2", "--cache", "bf16"}, Words{"evaluate", without, pairs, "--cache", "f32"}}) {
    const Finished finished = attend_command(command + Words{"--device", "cpu"});
    expect_one_line(finished, 2);
    EXPECT_EQ(finished.err, "attend: --cache has no effect on " + problem + command[0] + " --help\n");
  }
  const Finished served = attend_command({"serve", without, "--cache", "bf16", "--port", "0"});
  EXPECT_EQ(served.code, 2);
  EXPECT_NE(served.err.find("attend: --cache has no effect: none of these models keeps keys and values; see "),
            std::string::npos)
      << served.err;
  const Finished kept = attend_command({"evaluate", with, pairs, "--cache", "bf16", "--device", "cpu"});
  EXPECT_EQ(kept.code, 0) << kept.err;
}

TEST(Devices, FastIsForGpus) {
  const TemporaryFolder folder;
  ASSERT_EQ(train(job(folder, {"--quiet", "--device", "cpu"})).code, 0);
  const auto translated = [&](const Words& more) {
    return attend_command(Words{"translate", folder.file("m"), "1 2 3", "--device"} + more, with_gpus());
  };
  const Finished fast = translated({"cuda", "--fast"});
  EXPECT_EQ(fast.code, 0);
  EXPECT_EQ(fast.err, "--fast: the last digits of a result may depend on the other texts in a batch\n");
  const Finished host = translated({"cpu", "--fast"});
  EXPECT_EQ(host.err, "--fast changes nothing on the CPU\n");
  EXPECT_EQ(host.out, translated({"cpu"}).out);
}

TEST(Devices, AutoNamesTheGpuOrTheFault) {
  const TemporaryFolder folder;
  const Finished found = train(job(folder, {"--quiet"}), with_gpus());
  EXPECT_EQ(found.code, 0) << found.err;
  EXPECT_EQ(found.err, "Using Pretend GPU (cuda:0); --device cpu uses the processor\n");
  const Finished second = train(job(folder, {"--quiet", "--device", "cuda:1"}), with_gpus());
  EXPECT_EQ(second.code, 0) << second.err;
  EXPECT_EQ(second.err, "");
  const Finished missing = train(job(folder, {"--quiet"}), kNoPlugin);
  EXPECT_EQ(missing.code, 0) << missing.err;
  EXPECT_TRUE(missing.err.starts_with("Using the CPU: cuda: ATTEND_CUDA_PLUGIN: /nowhere/")) << missing.err;
  EXPECT_EQ(lines_of(missing.err).size(), 1u) << missing.err;
  const Finished cpu = train(job(folder, {"--quiet", "--device", "cpu"}), kNoPlugin);
  EXPECT_EQ(cpu.code, 0) << cpu.err;
  EXPECT_EQ(cpu.err, "");
}

TEST(Devices, FaultsAreOneLine) {
  const std::vector<std::pair<std::string, std::string>> faults{
      {"no_driver", "cuda: no NVIDIA driver is installed"},
      {"old_driver",
       "cuda: the NVIDIA driver is too old: it supports CUDA 12.4, but this plug-in was built with CUDA 13.0; update "
       "the driver"},
      {"no_gpu", "cuda: there is a driver, but no NVIDIA GPU"},
      {"no_blas",
       "cuda: libcublasLt.so.13 was not found: install cuBLAS of the CUDA toolkit, or set CUDA_HOME or "
       "LD_LIBRARY_PATH"},
      {"busy",
       "cuda:0: the GPU is busy: another process has it to itself (exclusive mode), or it permits no computing; "
       "nvidia-smi shows both; --device cpu uses the processor"},
      {"other_version",
       std::string("cuda: the plug-in ") + kPretendPlugin +
           " belongs to another version of attend: this one needs the plug-in that was built with it"}};
  const TemporaryFolder folder;
  for (const auto& [fault, text] : faults) {
    const Finished result = train(job(folder, {"--quiet", "--device", "cuda"}), with_gpus(fault));
    expect_one_line(result, 1);
    EXPECT_EQ(result.err, "attend: " + text + "\n");
  }
  const Finished wrong = train(job(folder, {"--device", "cuda:7"}), with_gpus());
  EXPECT_EQ(wrong.code, 1);
  EXPECT_EQ(wrong.err, "attend: cuda:7: no such device, this machine has 2 GPUs, counted from cuda:0\n");
  const Finished unknown = train(job(folder, {"--device", "gpu"}), with_gpus());
  EXPECT_EQ(unknown.code, 2);
  EXPECT_EQ(unknown.err, "attend: unknown device 'gpu': expected auto, cpu, cuda or cuda:N; see attend train --help\n");
}

TEST(Devices, TrainKeepsItsCheckpointWhenMemoryRunsOut) {
  const TemporaryFolder folder;
  const Words cuda{"--quiet", "--device", "cuda"};
  ASSERT_EQ(train(job(folder, cuda + Words{"--steps", "12"}), with_gpus()).code, 0);
  const std::string model = folder.file("m");
  ProcessOptions fills = with_gpus("full_after:2000");
  fills.environment.emplace_back("ATTEND_GRAPHS", "off");  // launches are counted, and a captured step is one
  const Finished full = train(Words{"--resume", model, "--steps", "30", "--validate-every", "6"} + cuda, fills);
  expect_one_line(full, 1);
  EXPECT_TRUE(full.err.starts_with("attend: cuda:0: out of memory: ")) << full.err;
  const std::string kept = "; the checkpoint of step ";
  ASSERT_NE(full.err.find(kept), std::string::npos) << full.err;
  EXPECT_NE(full.err.find(" is kept: attend train --resume " + model + "\n"), std::string::npos) << full.err;
  const auto file = SafetensorsFile::open(model + "/checkpoint.safetensors");
  EXPECT_NE(full.err.find(kept + file.metadata().at("step") + " "), std::string::npos) << full.err;
  EXPECT_EQ(train(Words{"--resume", model} + cuda, with_gpus()).code, 0);
}

TEST(Devices, TrainStopsBeforeTheFirstStepIfItCannotFit) {
  const TemporaryFolder folder;
  const Finished small = train(job(folder, {"--device", "cuda", "--quiet"}), with_gpus("memory:200000"));
  expect_one_line(small, 1);
  EXPECT_TRUE(small.err.starts_with("attend: not enough memory: the training needs about ")) << small.err;
  EXPECT_NE(small.err.find(" free on cuda:0; reduce --batch-tokens (and raise --accumulate as much), add --recompute, "
                           "use --precision bf16; the checkpoint of step 0 is kept: attend train --resume "),
            std::string::npos)
      << small.err;
  const Finished smaller =
      train({"--resume", folder.file("m"), "--batch-tokens", "32", "--accumulate", "8", "--recompute"});
  EXPECT_EQ(smaller.code, 0) << smaller.err;
  EXPECT_NE(smaller.err.find("\nmemory: about "), std::string::npos) << smaller.err;
  EXPECT_NE(smaller.err.find(" free on cpu\n"), std::string::npos) << smaller.err;
}

TEST(Devices, RecomputeTrainsTheSameModel) {
  const TemporaryFolder folder;
  ASSERT_EQ(train(job(folder, {"--quiet", "--dropout", "0.1"})).code, 0);
  const std::string model = folder.file("m") + "/model.safetensors", plain = file_text(model);
  ASSERT_EQ(train(job(folder, {"--quiet", "--dropout", "0.1", "--recompute"})).code, 0);
  EXPECT_TRUE(file_text(model) == plain);
  const std::string options = folder.file("m") + "/training.json";
  EXPECT_NE(file_text(options).find("\"recompute\": true"), std::string::npos);
  ASSERT_EQ(train({"--resume", folder.file("m"), "--no-recompute", "--steps", "8", "--quiet"}).code, 0);
  EXPECT_NE(file_text(options).find("\"recompute\": false"), std::string::npos);
  const Finished rnn = train(Words{"rnn", folder.file("pairs.tsv"), "-o", folder.file("r"), "--recompute"} + kTinyRnn);
  EXPECT_EQ(rnn.code, 2);
  EXPECT_EQ(rnn.err,
            "attend: --recompute applies only to Transformers, not to architecture rnn; see attend train --help\n");
}

}  // namespace
}  // namespace attend
