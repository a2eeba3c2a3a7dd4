// Shared helpers of the tests of file formats: temporary directories, hand-written files, checks of errors by code and
// message, and the peak of memory allocated by operator new.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "base/error.h"

namespace tenon::formats {

class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  std::string path() const { return path_.string(); }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  void put(const std::string& name, std::string_view contents) const;
  std::string get(const std::string& name) const;

 private:
  std::filesystem::path path_;
};

// Returns a safetensors file with this header, preceded by its length.
std::string with_length(std::string_view header, std::string_view data = "");
// Returns "name":{"dtype":"U8","shape":[n],"data_offsets":[begin,begin+n]}.
std::string entry(std::string_view quoted_name, size_t begin, size_t n);

// Peak of bytes allocated by operator new since `reset_peak`, relative to the amount allocated at that time.
void reset_peak();
size_t peak_bytes();

template <class Action>
testing::AssertionResult refuses(ErrorCode code, std::string_view message, Action&& action) {
  try {
    action();
  } catch (const UserError& error) {
    std::string text = error.what();
    if (error.code() == code && text.find(message) != std::string::npos) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "rejected, but with: " << text;
  } catch (const std::exception& error) {
    return testing::AssertionFailure() << "another exception: " << error.what();
  }
  return testing::AssertionFailure() << "not rejected";
}

}  // namespace tenon::formats
