#include "cli/info_devices.h"

#include <algorithm>
#include <iomanip>
#include <iostream>
#include <sstream>

#include "attend/backend/devices.h"

namespace attend::cli {
namespace {

std::string name_of(Device device) {
  std::ostringstream name;
  name << device;
  return name.str();
}

std::string capability_text(int architecture) {
  return std::to_string(architecture / 10) + "." + std::to_string(architecture % 10);
}

Json device_json(const DeviceInfo& info) {
  Json json{{"device", name_of(info.device)},
            {"name", info.name},
            {"total_memory", info.total_memory},
            {"free_memory", info.free_memory}};
  if (info.device == kCpu) return json;
  json["compute_capability"] = capability_text(info.architecture);
  json["driver"] = info.driver;
  json["problem"] = info.problem.empty() ? Json() : Json(info.problem);
  return json;
}

std::string gibibytes(double bytes) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(1) << bytes / (1 << 30) << " GiB";
  return text.str();
}

}  // namespace

Json devices_json() {
  Json list = Json::array();
  for (const DeviceInfo& info : devices()) list.push_back(device_json(info));
  const std::string problem = cuda_problem();
  return {{"devices", std::move(list)}, {"problem", problem.empty() ? Json() : Json(problem)}};
}

void print_devices(const Json& all) {
  for (const auto& info : all["devices"]) {
    std::cout << std::left << std::setw(8) << info["device"].get<std::string>() << info["name"].get<std::string>()
              << ", " << gibibytes(info["free_memory"].get<double>()) << " free of "
              << gibibytes(info["total_memory"].get<double>());
    if (info.contains("driver")) {
      std::cout << ", compute capability " << info["compute_capability"].get<std::string>() << ", driver "
                << info["driver"].get<std::string>();
    }
    std::cout << '\n';
    if (info.contains("problem") && !info["problem"].is_null()) {
      std::cout << "        cannot be used: " << info["problem"].get<std::string>() << '\n';
    }
  }
  if (!all["problem"].is_null()) std::cout << "No GPU can be used: " << all["problem"].get<std::string>() << '\n';
}

}  // namespace attend::cli
