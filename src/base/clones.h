// A function compiled once for each of these sets of instructions; the loader chooses. Not under TSan, whose runtime is not there yet when
// it does.
#pragma once

#ifdef __SANITIZE_THREAD__
#define TENON_CLONES(...)
#else
#define TENON_CLONES(...) __attribute__((target_clones(__VA_ARGS__)))
#endif
