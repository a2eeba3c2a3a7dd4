// Texts of errors, for messages that contain another one.
#pragma once

#include <exception>
#include <string>

#include "base/error.h"

namespace tenon::train {

// Returns the text of an error without the code in brackets and without a final period.
inline std::string cause_of(const std::exception& error) {
  std::string text = error.what();
  size_t bracket = text.find("] ");
  if (dynamic_cast<const Error*>(&error) && bracket != std::string::npos) text = text.substr(bracket + 2);
  return text.ends_with('.') ? text.substr(0, text.size() - 1) : text;
}

}  // namespace tenon::train
