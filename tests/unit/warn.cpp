// Warnings are printed to stderr as whole lines, once per key.
#include "base/warn.h"

#include <gtest/gtest.h>

namespace tenon::test {

TEST(Warn, OncePerKey) {
  testing::internal::CaptureStderr();
  EXPECT_TRUE(warn_once("unit test, first", "one"));
  EXPECT_FALSE(warn_once("unit test, first", "one more"));
  EXPECT_TRUE(warn_once("unit test, second", "two"));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "tenon: one\ntenon: two\n");
}

}  // namespace tenon::test
