#include "serve/metrics.h"

#include <malloc.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

namespace attend {
namespace {

std::string label(const std::string& name, const std::string& value) {
  std::string text = name + "=\"";
  for (const char c : value) {
    if (c == '\\' || c == '"') text += '\\';
    text += c == '\n' ? ' ' : c;
  }
  return text + '"';
}

int64_t resident_bytes() {
  std::ifstream in("/proc/self/statm");
  int64_t whole = 0, resident = 0;
  in >> whole >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

/// The bytes that the program holds, without those that the allocator keeps for later.
int64_t allocated_bytes() {
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 33)
  const auto info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
#else
  return 0;
#endif
}

void describe(std::ostream& out, const char* name, const char* type, const char* help) {
  out << "# HELP " << name << ' ' << help << "\n# TYPE " << name << ' ' << type << '\n';
}

}  // namespace

void Histogram::add(double seconds) {
  size_t at = 0;
  while (at < kBounds.size() && seconds > kBounds[at]) ++at;
  ++counts_[at];
  sum_ += static_cast<int64_t>(seconds * 1e6);
}

std::string Histogram::text(const std::string& name, const std::string& labels) const {
  std::ostringstream out;
  const std::string comma = labels.empty() ? "" : ",", braces = labels.empty() ? "" : "{" + labels + "}";
  int64_t count = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    count += counts_[i];
    out << name << "_bucket{" << labels << comma << "le=\"";
    i < kBounds.size() ? out << kBounds[i] : out << "+Inf";
    out << "\"} " << count << '\n';
  }
  out << name << "_sum" << braces << ' ' << static_cast<double>(sum_) * 1e-6 << '\n'
      << name << "_count" << braces << ' ' << count << '\n';
  return out.str();
}

ModelMetrics& Metrics::of(const std::string& model) {
  const std::lock_guard lock(mutex_);
  return models_[model];
}

void Metrics::answered(const std::string& path, int status) {
  const std::lock_guard lock(mutex_);
  ++requests_[{path, status}];
}

std::string Metrics::text() const {
  const std::lock_guard lock(mutex_);
  std::ostringstream out;
  describe(out, "attend_requests_total", "counter", "Requests by path and status.");
  for (const auto& [key, count] : requests_) {
    out << "attend_requests_total{" << label("path", key.first) << ",status=\"" << key.second << "\"} " << count
        << '\n';
  }
  const auto each = [&](const char* name, const char* type, const char* help,
                        std::atomic<int64_t> ModelMetrics::*member) {
    describe(out, name, type, help);
    for (const auto& [model, figures] : models_) {
      out << name << '{' << label("model", model) << "} " << figures.*member << '\n';
    }
  };
  each("attend_prompt_tokens_total", "counter", "Tokens read.", &ModelMetrics::prompt_tokens);
  each("attend_generated_tokens_total", "counter", "Tokens generated.", &ModelMetrics::generated_tokens);
  each("attend_cancelled_total", "counter", "Requests whose client hung up.", &ModelMetrics::cancelled);
  each("attend_rejected_total", "counter", "Requests rejected because the queue was full.", &ModelMetrics::rejected);
  each("attend_reused_tokens_total", "counter", "Prompt tokens whose keys and values were in the cache.",
       &ModelMetrics::reused_tokens);
  each("attend_drafted_tokens_total", "counter", "Guessed tokens that were checked.", &ModelMetrics::drafted_tokens);
  each("attend_accepted_tokens_total", "counter", "Guessed tokens that were right.", &ModelMetrics::accepted_tokens);
  each("attend_cache_bytes", "gauge", "Memory of keys and values.", &ModelMetrics::cache_bytes);
  each("attend_waiting", "gauge", "Requests in the queue.", &ModelMetrics::waiting);
  each("attend_running", "gauge", "Running requests.", &ModelMetrics::running);
  each("attend_tokens_in_flight", "gauge", "Tokens reserved by running requests.", &ModelMetrics::tokens_in_flight);
  describe(out, "attend_allocated_bytes", "gauge", "Memory allocated by the server on the CPU.");
  out << "attend_allocated_bytes " << allocated_bytes() << '\n';
  describe(out, "process_resident_memory_bytes", "gauge", "Resident memory of the server.");
  out << "process_resident_memory_bytes " << resident_bytes() << '\n';
  const auto times = [&](const char* name, const char* help, Histogram ModelMetrics::*member) {
    describe(out, name, "histogram", help);
    for (const auto& [model, figures] : models_) out << (figures.*member).text(name, label("model", model));
  };
  times("attend_first_token_seconds", "Time from a request to its first token.", &ModelMetrics::first_token);
  times("attend_between_tokens_seconds", "Time between the tokens of a text.", &ModelMetrics::between_tokens);
  times("attend_request_seconds", "Time from a request to the end of its response.", &ModelMetrics::request);
  return out.str();
}

}  // namespace attend
