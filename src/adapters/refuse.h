// The error of an adapter that cannot be used as asked.
#pragma once

#include <string>

#include "base/error.h"

namespace tenon::adapters {

[[noreturn]] inline void refuse(const std::string& text) { throw UserError(ErrorCode::adapter, text); }

}  // namespace tenon::adapters
