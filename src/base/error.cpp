#include <tenon/error.h>

namespace tenon {

const char* error_name(ErrorCode code) {
  switch (code) {
#define TENON_ERROR(name, meaning) \
  case ErrorCode::name:            \
    return #name;
#include <tenon/error_codes.def>
#undef TENON_ERROR
  }
  return "unknown";
}

const char* error_meaning(ErrorCode code) {
  switch (code) {
#define TENON_ERROR(name, meaning) \
  case ErrorCode::name:            \
    return meaning;
#include <tenon/error_codes.def>
#undef TENON_ERROR
  }
  return "";
}

Error::Error(ErrorCode code, const std::string& text)
    : std::runtime_error("[" + std::string(error_name(code)) + "] " + text), code_(code) {}

}  // namespace tenon
