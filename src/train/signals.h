// Notices SIGINT and SIGTERM while a training runs, so that it can end after the current step.
#pragma once

namespace tenon::train {

// While it exists, the first SIGINT or SIGTERM is only noted; a second SIGINT ends the process. The former handlers are restored when the
// last scope of the process is destroyed. A signal that is ignored stays ignored.
class SignalScope {
 public:
  SignalScope();
  ~SignalScope();
  SignalScope(const SignalScope&) = delete;
  SignalScope& operator=(const SignalScope&) = delete;

  // Returns the signal that was received, or 0.
  int received() const;
};

}  // namespace tenon::train
