#include "serve/tool_routes.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "inspect/json.h"
#include "io/printable.h"
#include "serve/fields.h"

namespace attend {
namespace {

// Limits of one request: a sweep over a long text would otherwise take hours.
constexpr int64_t kLongestTool = 1024, kMostPatches = 8192, kMostGradients = 512;
constexpr size_t kMostWords = 64;
constexpr std::chrono::milliseconds kBetweenSteps{200}, kBetweenParts{1000};

int64_t whole(const Json& body, const char* name, int64_t otherwise, int64_t least, int64_t most) {
  const auto found = body.find(name);
  if (found == body.end() || found->is_null()) return otherwise;
  if (!found->is_number_integer() || found->number() < static_cast<double>(least) ||
      found->number() > static_cast<double>(most)) {
    throw ApiError(400, std::string("expected a whole number from ") + std::to_string(least) + " to " +
                            std::to_string(most) + " for '" + name + "'");
  }
  return found->integer();
}

std::vector<std::string> texts(const Json& body, const char* name) {
  std::vector<std::string> result;
  const auto found = body.find(name);
  if (found == body.end() || found->is_null()) return result;
  bool is_list = found->is_array() && found->size() <= kMostWords;
  if (is_list) {
    for (const Json& item : *found) is_list = is_list && item.is_string();
  }
  if (!is_list) throw ApiError(400, std::string("expected a list of texts for '") + name + "'");
  for (const Json& item : *found) result.push_back(item.string());
  return result;
}

std::vector<PatchKind> kinds_of(const Json& body) {
  std::vector<PatchKind> kinds;
  constexpr std::array kAll{PatchKind::residual, PatchKind::attention, PatchKind::cross, PatchKind::feed_forward,
                            PatchKind::head};
  for (const std::string& name : texts(body, "kinds")) {
    const auto found = std::ranges::find_if(kAll, [&](PatchKind kind) { return name == name_of(kind); });
    if (found == kAll.end()) throw ApiError(400, "there is no kind " + in_quotes(name) + " of activations");
    kinds.push_back(*found);
  }
  return kinds;
}

/// Thrown to end the work of a client that has left.
struct Left {};

}  // namespace

ToolRequest tool_request(const std::string& name, const Json& body, RunOptions run) {
  ToolRequest request;
  try {
    request.tool = tool_named(name);
  } catch (const ShapeError& error) {
    throw ApiError(404, error.what());
  }
  run.longest = std::min(run.longest, kLongestTool);
  request.run = std::move(run);
  request.other = optional_text(body, "other");
  request.wanted = optional_text(body, "wanted");
  request.contrast = optional_text(body, "contrast");
  request.output = whole(body, "output", -1, -1, kLongestTool);
  request.kinds = kinds_of(body);
  request.most_runs = kMostPatches;
  request.top = whole(body, "top", 5, 1, 50);
  request.first = whole(body, "first", 0, 0, kLongestTool);
  request.places = whole(body, "places", 64, 1, 512);
  request.most_steps = kMostGradients;
  request.module = optional_text(body, "module").value_or("");
  request.head = whole(body, "head", 0, 0, 100000);
  request.words = texts(body, "words");
  const std::string baseline = optional_text(body, "baseline").value_or("mean");
  if (baseline != "mean" && baseline != "zero") throw ApiError(400, "'baseline' must be mean or zero");
  request.uses_zero = baseline == "zero";
  return request;
}

void stream_tool(const InspectedModel& model, const ToolRequest& request,
                 const std::function<bool(const std::string& line)>& send) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point next = Clock::now(), next_part = next + kBetweenParts;
  const auto send_or_leave = [&](const Json& line) {
    if (!send(json_text(line))) throw Left();
  };
  ToolWatch watch;
  watch.on_step = [&](int64_t done, int64_t total) {
    if (Clock::now() < next) return;
    next = Clock::now() + kBetweenSteps;
    send_or_leave({{"done", done}, {"total", total}});
  };
  watch.on_partial = [&](const std::function<Json()>& partial) {
    if (Clock::now() < next_part) return;
    send_or_leave({{"partial", partial()}});
    next_part = Clock::now() + kBetweenParts;
  };
  try {
    send(json_text({{"result", run_tool(model, request, watch).json}}));
  } catch (const Left&) {  // nobody reads the result
  } catch (const std::bad_alloc&) {
    send(json_text({{"error", "out of memory for this request"}}));
  } catch (const std::exception& error) {
    send(json_text({{"error", error.what()}}));
  }
}

}  // namespace attend
