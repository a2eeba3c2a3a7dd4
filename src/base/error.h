// Error classes. A UserError says what the caller did and what to do next; an InternalError is a bug in Tenon. errors.def
// lists the codes.
#pragma once

#include <stdexcept>
#include <string>

namespace tenon {

enum class ErrorCode {
#define TENON_ERROR(code, meaning) code,
#include "base/errors.def"
#undef TENON_ERROR
};

const char* error_name(ErrorCode code);
const char* error_meaning(ErrorCode code);

class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& text);
  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

class UserError : public Error {
  using Error::Error;
};

class InternalError : public Error {
 public:
  explicit InternalError(const std::string& text) : Error(ErrorCode::internal, text) {}
};

}  // namespace tenon
