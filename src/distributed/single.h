#pragma once

#include "distributed/group.h"

namespace attend::distributed {

/// A group of one member: this process.
std::unique_ptr<Group> single_process();

std::string host_name();

}  // namespace attend::distributed
