// Model files of other programs: recognised by their contents, with advice in the error.

#include <filesystem>
#include <fstream>

#include "hub_testing.h"

namespace attend {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;
using testing::tiny_gpt2;

void write(const std::string& path, const std::string& content) { std::ofstream(path, std::ios::binary) << content; }

/// The error of load_any_model for a path, without the path.
std::string complaint(const std::string& path) {
  try {
    load_any_model(path);
    return "nothing";
  } catch (const FormatError& error) {
    const std::string what = error.what();
    EXPECT_EQ(what.find('\n'), std::string::npos) << what;
    EXPECT_TRUE(what.starts_with(path + ": ")) << what;
    return what.substr(std::min(what.size(), path.size() + 2));
  }
}

/// The error for a file with this content and a neutral name.
std::string complaint_of(const std::string& content) {
  const TemporaryFolder folder;
  write(folder.file("a"), content);
  return complaint(folder.file("a"));
}

const std::string kDownload =
    "which cannot be read; download the model as a Hugging Face folder (config.json, model.safetensors and tokenizer "
    "files)";
const std::string kPickle =
    "reading it can run arbitrary code; if you trust it, convert it with transformers: "
    "from_pretrained(FOLDER).save_pretrained(FOLDER)";
const std::string kOnnx(
    "\x08\x07\x12\x07pytorch\x1a\x05"
    "2.1.0:\x10",
    20);
const std::string kCTranslate2("\x06\0\0\0\x10\0TransformerSpec\0\x07\0\0\0", 26);
const std::string kTorch = std::string("PK\x03\x04", 4) + std::string(26, '\0') + "model/data.pkl\x80\x02}q";

TEST(Foreign, FilesAreRecognisedByTheirContent) {
  EXPECT_EQ(complaint_of("GGUF\x03"), "is a GGUF file of llama.cpp, " + kDownload);
  EXPECT_EQ(complaint_of("tjgg\x03"), "is a GGML file of an older llama.cpp, " + kDownload);
  EXPECT_EQ(complaint_of(kOnnx), "is an ONNX file, " + kDownload);
  EXPECT_EQ(complaint_of(kCTranslate2), "is a CTranslate2 model, " + kDownload);
  EXPECT_EQ(complaint_of(kTorch), "is a PyTorch file with a pickle in it; " + kPickle);
  EXPECT_EQ(complaint_of("\x80\x02}q\x01"), "is a pickle, the format of older PyTorch files; " + kPickle);
  EXPECT_EQ(complaint_of("\x89HDF\r\n\x1a\n"), "is an HDF5 file of Keras or TensorFlow, " + kDownload);
  EXPECT_EQ(complaint_of("version https://git-lfs.github.com/spec/v1\noid sha256:0\n"),
            "is a Git LFS pointer, not the file itself; run git lfs pull in the folder");
  EXPECT_EQ(complaint_of("<!DOCTYPE html><title>404</title>"), "is a web page, not a model; download the file itself");
  EXPECT_EQ(complaint_of("\x1f\x8b\x08"), "is an archive; unpack it and give the folder");
  EXPECT_EQ(complaint_of(""), "is an empty file; expected a model folder");
  EXPECT_EQ(complaint_of("once upon a time"), "is a file of unknown format; expected a model folder");
  EXPECT_EQ(complaint_of("\x08"), "is a file of unknown format; expected a model folder");
}

TEST(Foreign, ALoneSafetensorsFile) {
  const TemporaryFolder folder;
  tiny_gpt2().save(folder.path());
  EXPECT_EQ(complaint(folder.file("model.safetensors")),
            "is only the weights file; give its folder instead: " + folder.path());
  fs::remove(folder.file("config.json"));
  EXPECT_EQ(complaint(folder.file("model.safetensors")),
            "is a safetensors file, which has weights but not the model's architecture; put it as model.safetensors "
            "beside its config.json and tokenizer files, and give that folder");
  EXPECT_EQ(complaint(folder.path()), "this is not a model folder, it has no config.json");
}

TEST(Foreign, FoldersOfOtherPrograms) {
  const TemporaryFolder folder;
  const std::string path = folder.path();
  write(folder.file("config.json"), R"({"add_source_bos": false, "bos_token": "<s>"})");
  EXPECT_EQ(complaint(path), "this is not a model folder, it has no model.safetensors");
  write(folder.file("model.bin"), kCTranslate2);
  EXPECT_EQ(complaint(path), "is not a model folder: its file 'model.bin' is a CTranslate2 model, " + kDownload);
  write(folder.file("config.json"), R"({"model_type": "gpt2"})");
  write(folder.file("model.bin"), kOnnx);
  EXPECT_EQ(complaint(path), "is not a model folder: its file 'model.bin' is an ONNX file, " + kDownload);
  write(folder.file("adapter_config.json"), "{}");
  EXPECT_EQ(complaint(path),
            "holds an adapter (LoRA), which is not a whole model; merge it into its base model with PEFT: "
            "merge_and_unload(), then save_pretrained(FOLDER)");
}

TEST(Foreign, AFolderOfModels) {
  const TemporaryFolder folder;
  tiny_gpt2().save(folder.file("snapshots/1234"));
  EXPECT_EQ(complaint(folder.path()),
            "is not a model folder, but contains a model; give " + folder.file("snapshots/1234"));
  tiny_gpt2().save(folder.file("b"));
  EXPECT_EQ(complaint(folder.path()),
            "is not a model folder, but contains models; give " + folder.file("b") + " or another one");
}

TEST(Foreign, APointerInPlaceOfTheWeights) {
  const TemporaryFolder folder;
  tiny_gpt2().save(folder.path());
  write(folder.file("model.safetensors"), "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 548105171\n");
  EXPECT_EQ(testing::complaint_about(folder.path()),
            "model.safetensors: is a Git LFS pointer, not the file itself; run git lfs pull in the folder");
}

}  // namespace
}  // namespace attend
