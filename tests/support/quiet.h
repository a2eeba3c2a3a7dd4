// Disables warnings of ATen, which random arguments and degenerate shapes trigger all the time.
#pragma once

#include <c10/util/Exception.h>

namespace tenon::test {

inline void silence_warnings() {
  struct Quiet : c10::WarningHandler {
    void process(const c10::Warning&) override {}
  };
  static Quiet quiet;
  c10::WarningUtils::set_warning_handler(&quiet);
}

}  // namespace tenon::test
