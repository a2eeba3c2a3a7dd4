// What the tests of files share: directories that vanish, files by hand, refusals by code and text, and the
// memory that operator new hands out.
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

// A safetensors file of this header, with its length before it.
std::string with_length(std::string_view header, std::string_view data = "");
// {"name":{"dtype":"U8","shape":[n],"data_offsets":[begin,begin+n]}} without the braces around it
std::string entry(std::string_view quoted_name, size_t begin, size_t n);

// The most that operator new had handed out since `reset_peak`, beyond what it had then.
void reset_peak();
size_t peak_bytes();

template <class Action>
testing::AssertionResult refuses(ErrorCode code, std::string_view piece, Action&& action) {
  try {
    action();
  } catch (const UserError& error) {
    std::string text = error.what();
    if (error.code() == code && text.find(piece) != std::string::npos) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "refused, but with: " << text;
  } catch (const std::exception& error) {
    return testing::AssertionFailure() << "another exception: " << error.what();
  }
  return testing::AssertionFailure() << "not refused";
}

}  // namespace tenon::formats
