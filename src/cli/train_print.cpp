#include "cli/train_print.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "attend/nn/parameters.h"
#include "attend/text/segment.h"

namespace attend::cli {
namespace {

constexpr auto kSilence = std::chrono::seconds(30);  // between lines of a log

template <class... Parts>
std::string format(const char* pattern, Parts... parts) {
  char text[256];
  std::snprintf(text, sizeof text, pattern, parts...);
  return text;
}

int progress_width() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 100;
}

std::string report_text(const StepReport& report) {
  return format("step %lld/%lld  epoch %.1f  loss %.4f  lr %.2e  %s tokens/s  %s left",
                static_cast<long long>(report.step), static_cast<long long>(report.steps), report.epoch, report.loss,
                report.lr, grouped(report.tokens_per_second).c_str(), clock_time(report.seconds_left).c_str());
}

std::string evaluation_text(const Evaluation& result) {
  std::string text = format("validation loss %.4f", result.loss);
  if (result.accuracy) text += format(", accuracy %.1f %%", 100 * *result.accuracy);
  if (!result.accuracy) text += format(", perplexity %.2f", std::exp(result.loss));
  if (result.bleu) text += format(", BLEU %.2f", *result.bleu);
  if (result.chrf) text += format(", chrF %.2f", *result.chrf);
  return text;
}

std::string next_command(const Model& model, const std::string& path) {
  switch (model.kind()) {
    case ModelKind::translation:
      return "attend translate " + path + " \"…\"";
    case ModelKind::language:
      return "attend generate " + path + " \"…\"";
    case ModelKind::classification:
    case ModelKind::pictures:
      break;
  }
  return dynamic_cast<const EncoderModel&>(model).labels().empty() ? "attend train encoder LABELLED.tsv --from " + path
                                                                   : "attend classify " + path + " \"…\"";
}

}  // namespace

std::string clock_time(double seconds) {
  const auto total = static_cast<long long>(std::llround(std::max(seconds, 0.0)));
  if (total >= 3600) return format("%lld:%02lld:%02lld", total / 3600, total / 60 % 60, total % 60);
  return format("%lld:%02lld", total / 60, total % 60);
}

std::string shell_word(const std::string& path) {
  const auto is_plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || c >= 0x80 || std::strchr("_./-+:@%,", c);
  };
  if (!path.empty() && std::ranges::all_of(path, is_plain)) return path;
  std::string word = "'";
  for (const char c : path) word += c == '\'' ? "'\\''" : std::string(1, c);
  return word + "'";
}

std::string grouped(double number) {
  std::string digits = std::to_string(std::llround(number));
  for (auto i = static_cast<long>(digits.size()) - 3; i > 0; i -= 3) digits.insert(static_cast<size_t>(i), 1, ',');
  return digits;
}

TrainingPrinter::TrainingPrinter(std::ostream& out, bool quiet)
    : out_(out), quiet_(quiet), live_(isatty(STDERR_FILENO) == 1) {}

TrainingPrinter::~TrainingPrinter() { clear(); }

void TrainingPrinter::status(const std::string& text) {
  if (quiet_ || !live_) return;
  const std::string cut = fitted(text, progress_width() - 3);
  const auto width = static_cast<size_t>(display_width(cut));
  out_ << '\r' << cut << std::string(shown_ > width ? shown_ - width : 0, ' ') << std::flush;
  shown_ = width;
}

void TrainingPrinter::clear() {
  if (shown_ > 0) out_ << '\r' << std::string(shown_ + 2, ' ') << '\r' << std::flush;  // Ctrl-C adds "^C"
  shown_ = 0;
}

void TrainingPrinter::line(const std::string& text) {
  if (quiet_) return;
  clear();
  out_ << text << '\n' << std::flush;
  told_ = std::chrono::steady_clock::now();
}

Progress TrainingPrinter::progress() {
  return [this](const std::string& what, double share) {
    if (what != phase_) phase_ = what, phase_began_ = std::chrono::steady_clock::now(), phase_told_ = false;
    status(what + (share < 0 ? " …" : format(" … %.0f %%", 100 * share)));
    // In a log, only phases that take time get a line.
    if (live_ || phase_told_ || std::chrono::steady_clock::now() - phase_began_ < std::chrono::seconds(2)) return;
    line(what + " …");
    phase_told_ = true;
  };
}

void TrainingPrinter::start(const TrainingFolder& folder) {
  int64_t parameters = 0;
  for (const auto& [name, tensor] : folder.model().parameters()) parameters += tensor.numel();
  const Dataset& data = folder.data();
  line(folder.model().architecture() + ": " + grouped(static_cast<double>(parameters)) + " parameters, " +
       grouped(static_cast<double>(folder.model().vocab_size())) + " tokens in the vocabulary");
  std::string corpus = grouped(static_cast<double>(data.training.total_tokens())) + " tokens";
  if (!data.training_examples.empty()) {
    corpus += " in " + grouped(static_cast<double>(data.training_examples.size())) + " examples, " +
              grouped(static_cast<double>(data.validation_examples.size())) + " for validation";
  }
  if (data.dropped > 0)
    corpus += "; " + grouped(static_cast<double>(data.dropped)) + " lines with an empty side skipped";
  line("corpus: " + corpus);
}

TrainingObserver TrainingPrinter::observer() {
  TrainingObserver observer;
  observer.note = [this](const std::string& text) { line(text); };
  has_told_ = false;
  observer.started = [this] { status("Starting …"); };
  observer.progress = [this](const StepReport& report) {
    status(report_text(report));
    if (live_ || (has_told_ && std::chrono::steady_clock::now() - told_ < kSilence)) return;
    line(report_text(report));
    has_told_ = true;
  };
  observer.step = [this](const StepReport& report) {
    if (live_) status(report_text(report));
    if (!live_) line(report_text(report));
    has_told_ = true;
  };
  observer.validation = [this](const ValidationReport& report) {
    line(format("step %lld: ", static_cast<long long>(report.step)) + evaluation_text(report.result) +
         (report.is_best ? " (best so far)" : ""));
    const int width = std::min(progress_width(), 115) - 5;
    for (const Sample& sample : report.samples) {
      if (!sample.source.empty()) line("    " + fitted(visible(sample.source), width));
      line("  → " + fitted(visible(sample.output), width));
      if (!sample.expected.empty()) line("  = " + fitted(visible(sample.expected), width));
    }
  };
  return observer;
}

namespace {

/// What a step did on the GPU, on average; empty on the CPU.
std::string gpu_text(const TrainingOutcome& outcome) {
  const auto per_step = [&](size_t count, const char* what) {
    return format("%.3g ", static_cast<double>(count) / static_cast<double>(outcome.made_now)) + what;
  };
  if (outcome.gpu.launches + outcome.gpu.graph_launches == 0 || outcome.made_now == 0) return "";
  return "GPU: " + per_step(outcome.gpu.graph_launches, "graph launches, ") +
         per_step(outcome.gpu.launches, "kernel launches and ") +
         per_step(outcome.gpu.synchronizations, "synchronisations per step");
}

/// How long transfers of a process took, and which share of that the computation has hidden; empty without transfers.
std::string transfer_text(const char* what, double seconds, double exposed, int64_t steps) {
  if (seconds <= 0 || steps == 0) return "";
  const double hidden = 1 - std::min(exposed / seconds, 1.0);
  return what + format(": %.3g ms per step, %.0f %% of it hidden behind the computation",
                       1000 * seconds / static_cast<double>(steps), 100 * hidden);
}

std::string exchange_text(const TrainingOutcome& outcome) {
  const std::string text =
      transfer_text("exchange of gradients", outcome.exchange_seconds, outcome.exposed_seconds, outcome.made_now);
  if (text.empty() || outcome.waited_seconds <= 0) return text;
  return text + format("; %.3g ms per step waiting for slower processes",
                       1000 * outcome.waited_seconds / static_cast<double>(outcome.made_now));
}

std::string ring_text(const TrainingOutcome& outcome) {
  return transfer_text("ring of keys and values", outcome.ring_seconds, outcome.ring_exposed_seconds, outcome.made_now);
}

}  // namespace

void TrainingPrinter::finish(const TrainingFolder& folder, const TrainingOutcome& outcome, const std::string& path) {
  if (outcome.end == TrainingOutcome::End::interrupted) {
    line(format("Stopped at step %lld; everything is saved.", static_cast<long long>(outcome.step)));
    line("Continue with: attend train --resume " + shell_word(path));
    return;
  }
  const bool early = outcome.end == TrainingOutcome::End::stopped_early;
  if (outcome.made_now == 0) {
    line(format("Training had already %s at step %lld of %lld: ", early ? "stopped early" : "finished",
                static_cast<long long>(outcome.step), static_cast<long long>(outcome.steps)) +
         evaluation_text(outcome.result));
    const int64_t more = early ? 2 * folder.training().patience : 2 * outcome.steps;
    line("To train further: attend train --resume " + shell_word(path) + (early ? " --patience " : " --steps ") +
         std::to_string(more));
    return;
  }
  if (early) line("Stopped early: validation no longer improves.");
  line("Done after " + clock_time(outcome.seconds) + " of training (" + grouped(outcome.tokens_per_second) +
       " tokens/s): " + evaluation_text(outcome.result));
  for (const std::string& text : {gpu_text(outcome), exchange_text(outcome), ring_text(outcome)}) {
    if (!text.empty()) line(text);
  }
  line("The model is in " + path + ", its loss curve in " + path + "/loss.svg");
  line("Use it with: " + next_command(folder.model(), shell_word(path)));
}

}  // namespace attend::cli
