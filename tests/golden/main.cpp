// goldens DIR…: checks every reference case in the given directories or files; see cases/README.md.

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>

#include "attend/backend/devices.h"
#include "attend/tensor/creation.h"
#include "backend/cpu/instruction_set.h"
#include "chat_templates.h"
#include "metrics.h"
#include "model.h"
#include "real_models.h"
#include "registry.h"
#include "tokenizer.h"

namespace attend::golden {
namespace {

namespace fs = std::filesystem;

/// Whether a file is a reference case; weights are not.
bool is_case(const fs::path& path) {
  if (is_chat_template_case(path)) return true;
  if (is_tokenizer_case(path) || is_metrics_file(path.string()) || is_real_model(path)) return true;
  return path.extension() == ".safetensors" && path.filename() != "model.safetensors";
}

std::vector<std::string> find_cases(const std::vector<std::string>& places) {
  std::vector<std::string> found;
  for (const std::string& place : places) {
    require<FormatError>(fs::exists(place), place, ": there is no such file or directory");
    if (!fs::is_directory(place)) {
      found.push_back(place);
      continue;
    }
    for (const auto& entry : fs::recursive_directory_iterator(place)) {
      if (entry.is_regular_file() && is_case(entry.path())) found.push_back(entry.path().string());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

/// Empty if the case passes, otherwise the error.
std::string check(const std::string& path, const Registry& registry) {
  if (is_metrics_file(path)) return check_metrics_file(path);
  if (is_chat_template_case(path)) return check_chat_template(path);
  if (is_tokenizer_case(path)) return check_tokenizer(path);
  if (is_real_model(path)) return check_real_model(path);
  if (fs::path(path).filename() == "golden.safetensors") return check_model(path);
  Case reference(path);
  const auto checker = registry.find(reference.op());
  if (checker == registry.end()) return "unknown op '" + reference.op() + "'";
  checker->second(reference);
  const std::vector<Mismatch> mismatches = reference.finish();
  if (mismatches.empty()) return {};
  const auto excess = [](const Mismatch& m) { return std::isnan(m.error) ? INFINITY : m.error / m.tolerance; };
  const auto worst = std::max_element(mismatches.begin(), mismatches.end(),
                                      [&](const Mismatch& a, const Mismatch& b) { return excess(a) < excess(b); });
  std::ostringstream text;
  text << worst->tensor << " is off by " << worst->error << ", allowed " << worst->tolerance;
  if (mismatches.size() > 1) text << " (and " << mismatches.size() - 1 << " more tensors)";
  return text.str();
}

enum class Outcome { passed, failed, skipped };

Outcome check_and_tell(const std::string& path, const Registry& registry) {
  std::string problem;
  try {
    problem = check(path, registry);
  } catch (const Skipped& why) {
    std::cout << "SKIPPED " << path << ": " << why.what() << '\n';
    return Outcome::skipped;
  } catch (const std::exception& error) {
    problem = error.what();
  }
  if (!problem.empty()) std::cout << "FAILED " << path << ": " << problem << '\n';
  return problem.empty() ? Outcome::passed : Outcome::failed;
}

int run(const std::vector<std::string>& places) {
  cpu::instruction_set();  // reports an invalid ATTEND_CPU once, not for every case
  Registry registry;
  add_elementary(registry);
  add_attention(registry);
  add_transformer(registry);
  add_recurrent(registry);
  add_optim(registry);
  int passed = 0, failed = 0;
  for (const std::string& path : find_cases(places)) {
    const Outcome outcome = check_and_tell(path, registry);
    passed += outcome == Outcome::passed;
    failed += outcome == Outcome::failed;
  }
  if (passed + failed == 0) std::cout << "no reference cases found\n";
  std::cout << passed << " passed, " << failed << " failed on ";
  default_device() == kCpu ? std::cout << cpu::name_of(cpu::instruction_set()) : std::cout << default_device();
  std::cout << std::endl;
  return failed == 0 && passed > 0 ? 0 : 1;
}

}  // namespace
}  // namespace attend::golden

int main(int count, char** arguments) {
  std::vector<std::string> places(arguments + 1, arguments + count);
  const bool has_device = places.size() > 1 && places[0] == "--device";
  const std::string device = has_device ? places[1] : "cpu";
  if (has_device) places.erase(places.begin(), places.begin() + 2);
  const bool help = places.size() == 1 && (places[0] == "--help" || places[0] == "-h");
  const bool set = places.size() == 1 && places[0] == "--instruction-set";
  if (places.empty() || help || (places[0].starts_with("--") && !set)) {
    (help ? std::cout : std::cerr)
        << "usage: goldens [--device NAME] DIR…  check every reference case below DIR\n"
           "       goldens --instruction-set      print the instruction set that ATTEND_CPU leaves\n";
    return help ? 0 : 2;
  }
  try {
    attend::set_default_device(attend::parse_device(device));
    if (set) return std::cout << attend::cpu::name_of(attend::cpu::instruction_set()) << std::endl, 0;
    return attend::golden::run(places);
  } catch (const std::exception& error) {
    std::cerr << "goldens: " << error.what() << '\n';
    return 1;
  }
}
