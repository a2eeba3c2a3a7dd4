// Function multiversioning: the function is compiled for each of these targets, and the loader selects one. TSan builds have
// one version only, because the selection runs before TSan's runtime is initialized.
#pragma once

#ifdef __SANITIZE_THREAD__
#define TENON_CLONES(...)
#else
#define TENON_CLONES(...) __attribute__((target_clones(__VA_ARGS__)))
#endif
