#pragma once

#include <initializer_list>
#include <string>

namespace attend::cuda {

/// Opens the first of these libraries that is found: on the default path of dlopen, or in the folders of the CUDA
/// toolkit. Returns null if there is none.
void* open_toolkit_library(std::initializer_list<const char*> files);

/// The function `name` of an opened library. Throws DeviceError if there is none.
void* function_of(void* library, const char* name);

/// Sets a pointer to the function `name` of an opened library.
template <class Function>
void load(Function*& function, void* library, const char* name) {
  function = reinterpret_cast<Function*>(function_of(library, name));
}

}  // namespace attend::cuda
