#pragma once

#include <functional>
#include <string>

#include "attend/io/json.h"
#include "inspect/tools.h"

// The tools of interpretability over HTTP: /api/tools/NAME.
namespace attend {

/// The request of a tool, from the body of an HTTP request. `run` is the input. Throws ApiError with status 400 for a
/// field of the wrong type or out of range, and 404 for an unknown tool.
ToolRequest tool_request(const std::string& name, const Json& body, RunOptions run);

/// Runs the tool and sends lines of JSON: {"done", "total"} at most five times a second, then {"result"} or {"error"}.
/// Stops as soon as `send` returns false, because the client has disconnected.
void stream_tool(const InspectedModel& model, const ToolRequest& request,
                 const std::function<bool(const std::string& line)>& send);

}  // namespace attend
