// Runs the tests of a program on the device that ATTEND_TEST_DEVICE names: tensors are created there by default. The
// CPU's tests on other instruction sets use ATTEND_CPU in the same way.
#include <cstdlib>
#include <iostream>

#include "attend/backend/devices.h"
#include "attend/tensor/creation.h"

namespace {

const bool is_chosen = [] {
  const char* name = std::getenv("ATTEND_TEST_DEVICE");
  if (name == nullptr) return false;
  try {
    attend::set_default_device(attend::parse_device(name));
  } catch (const attend::Error& error) {
    std::cerr << error.what() << '\n';
    std::exit(77);  // skipped
  }
  return true;
}();

}  // namespace
