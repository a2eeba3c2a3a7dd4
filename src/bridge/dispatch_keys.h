// The dispatch keys that Tenon takes for itself. libtorch 2.13 registers nothing for them; Tenon's other files name no dispatch key as
// their own.
#pragma once

#include <torch/library.h>

namespace tenon::bridge {

inline constexpr auto kOuterListenerKey = c10::DispatchKey::DeferredInit;             // Runs above autocast and autograd.
inline constexpr auto kInnerListenerKey = c10::DispatchKey::Fake;                     // Runs below autograd and above the backends.
inline constexpr auto kTreeLayerKey = c10::DispatchKey::TESTING_ONLY_GenericWrapper;  // Runs above all others.

// Registers the fallback of a key until the process ends. Throws InternalError if another library has registered one. Returns true, so
// that a static variable can take the key once.
bool take_dispatch_key(c10::DispatchKey key, torch::CppFunction fallback);

}  // namespace tenon::bridge
