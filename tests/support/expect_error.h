// Checks an error's code and parts of its text.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"

namespace tenon::test {

// Expects that `f` throws an error with this code, whose text contains all parts.
template <class F>
void expect_error(ErrorCode code, const std::vector<std::string>& parts, F&& f) {
  try {
    f();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    for (const std::string& part : parts) EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

}  // namespace tenon::test
