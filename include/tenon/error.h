// The exceptions that Tenon throws.
//
//   try {
//     auto model = tenon::load_model("llama/");
//   } catch (const tenon::UserError& error) {
//     if (error.code() == tenon::ErrorCode::file) ...
//   }
//
// Errors of the program itself (a shape that libtorch refuses, for example) pass through compiled functions unchanged, as c10::Error.
#pragma once

#include <stdexcept>
#include <string>

#include <tenon/export.h>

namespace tenon {

// The kind of an error. docs/reference/errors.md lists all codes with their meanings.
enum class ErrorCode {
#define TENON_ERROR(code, meaning) code,
#include <tenon/error_codes.def>
#undef TENON_ERROR
};

// The code's name, and one sentence that says what it means. Both may be called from any thread.
TENON_API const char* error_name(ErrorCode code);
TENON_API const char* error_meaning(ErrorCode code);

// Base class of the two below. what() begins with the code in brackets: "[config] ...".
class TENON_API Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& text);
  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

// The caller's input, settings or files cannot be used. The text says what was wrong and what to do instead.
class TENON_API UserError : public Error {
  using Error::Error;
};

// A bug in Tenon. A call throws it only under OnInternalError::raise; otherwise the program runs without the graph.
class TENON_API InternalError : public Error {
 public:
  explicit InternalError(const std::string& text) : Error(ErrorCode::internal, text) {}
};

}  // namespace tenon
