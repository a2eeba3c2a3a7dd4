#include "build/phases.h"

namespace tenon::build {

const char* phase_name(Phase phase) {
  static constexpr const char* names[] = {
#define TENON_PHASE(name, what) #name,
#include "build/phases.def"
#undef TENON_PHASE
  };
  return names[static_cast<size_t>(phase)];
}

}  // namespace tenon::build
