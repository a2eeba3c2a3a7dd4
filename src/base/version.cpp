#include <tenon/version.h>

#define TENON_TEXT_OF(x) #x
#define TENON_TEXT(x) TENON_TEXT_OF(x)

namespace tenon {

const char* version() { return TENON_TEXT(TENON_VERSION_MAJOR) "." TENON_TEXT(TENON_VERSION_MINOR) "." TENON_TEXT(TENON_VERSION_PATCH); }

}  // namespace tenon
