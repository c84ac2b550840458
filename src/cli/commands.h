#pragma once

#include "cli/command_line.h"

// The commands of the program, one source file each. Each function adds its command to `app`.
namespace attend::cli {

/// `attend bench [NAME…]`: measures workloads against the machine's peak.
void add_bench(Command& app);
/// `attend chat MODEL`: talks with a language model in the terminal.
void add_chat(Command& app);
/// `attend classify MODEL TEXT…`: classifies texts or images.
void add_classify(Command& app);
/// `attend compare FILE… -o FOLDER`: trains models with and without attention and compares them by sentence length.
void add_compare(Command& app);
/// `attend convert MODEL -o FOLDER`: exports a model to Hugging Face format, or imports one.
void add_convert(Command& app);
/// `attend demo`: trains a small Transformer to read dates and shows what it attends to.
void add_demo(Command& app);
/// `attend embed MODEL TEXT…`: computes a vector for each text.
void add_embed(Command& app);
/// `attend evaluate MODEL FILE…`: evaluates a model, or with `--hypotheses FILE REFERENCE…` a translation.
void add_evaluate(Command& app);
/// `attend explain TEXT`: prints attention over a sentence step by step.
void add_explain(Command& app);
/// `attend fill MODEL "… [MASK] …"`: lists the likeliest words for each mask.
void add_fill(Command& app);
/// `attend generate MODEL TEXT…`: continues a prompt.
void add_generate(Command& app);
/// `attend info MODEL`: describes a model folder.
void add_info(Command& app);
/// `attend inspect MODEL TEXT -o FILE`: writes a model's attention as a page, JSON or an image.
void add_inspect(Command& app);
/// `attend manual FOLDER`, hidden: writes the manual pages and the shells' completions, man1/*.1, attend.bash, _attend
/// (for zsh) and attend.fish. The build calls it.
void add_manual(Command& app);
/// `attend plan MODEL --processes N --link GBIT`: predicts the speed of training on many processes.
void add_plan(Command& app);
/// `attend score MODEL`: computes the log-probability of texts or pairs.
void add_score(Command& app);
/// `attend serve MODEL…`: serves models over HTTP.
void add_serve(Command& app);
/// `attend tokenize`: converts text to tokens and back, and trains tokenizers.
void add_tokenize(Command& app);
/// `attend train ARCHITECTURE FILE… -o MODEL`: trains a model.
void add_train(Command& app);
/// `attend translate MODEL TEXT…`: translates text with an encoder–decoder.
void add_translate(Command& app);
/// `attend view MODEL…`: serves the page that shows what models attend to.
void add_view(Command& app);

}  // namespace attend::cli
