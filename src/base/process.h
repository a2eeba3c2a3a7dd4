// The process that Tenon is a part of.
#pragma once

namespace tenon {

// Keeps the library that holds this code in memory until the process ends: tensors and libtorch's dispatcher hold
// pointers into it. Also asks to be told when the process ends. Cheap after the first call.
void settle_in_process();

// exit() has run the handlers that were registered after the first call of settle_in_process: objects that Tenon
// depends on may be gone.
bool process_is_ending();

}  // namespace tenon
