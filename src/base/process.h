// The lifetime of the library within the process.
#pragma once

namespace tenon {

// Prevents the library from being unloaded until the process ends, because tensors and libtorch's dispatcher hold pointers
// into it. Also registers the exit handler of process_is_ending. Cheap after the first call.
void keep_library_loaded();

// Returns whether exit() has run the handlers that were registered after the first call of keep_library_loaded. Objects that
// Tenon depends on may be destroyed then.
bool process_is_ending();

}  // namespace tenon
