// The processes of a job and their collectives, over libtorch's c10d: a TCPStore and a Gloo process group, joined as torchrun expects.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dist/launch.h"

namespace tenon::dist {

// A collective that may still run. Each must be waited for, in the order in which they were begun.
class Pending {
 public:
  Pending() = default;
  explicit Pending(std::function<void()> wait) : wait_(std::move(wait)) {}
  // Returns when the result is there. Throws UserError(distributed) that names the rank if another process has ended or hangs.
  void wait() {
    if (auto wait = std::exchange(wait_, nullptr)) wait();
  }

 private:
  std::function<void()> wait_;
};

// All processes must call the same functions in the same order. One thread at a time. A group of one process does nothing. Tensors must
// be contiguous, and must not be read or written before the result is there.
class ProcessGroup {
 public:
  // Joins the job: returns when all processes have. A collective that takes longer than `timeout_seconds` fails. Throws
  // UserError(distributed) if the job cannot be joined.
  static std::shared_ptr<ProcessGroup> join(const Launch& launch, double timeout_seconds);
  ~ProcessGroup();

  int rank() const { return launch_.rank; }
  int size() const { return launch_.size; }
  const Launch& launch() const { return launch_; }

  // Replaces the tensor by the sum over all processes.
  Pending sum(const at::Tensor& tensor);
  // Replaces the tensor by that of rank 0.
  Pending broadcast(const at::Tensor& tensor);
  // Writes the tensors of all processes, one after the other, to `out`.
  Pending gather(const at::Tensor& tensor, const at::Tensor& out);
  // Returns when all processes have called it.
  void barrier();

  // Time that this process has waited for collectives.
  double seconds_waited() const { return seconds_waited_; }

  // Returns the texts of all processes, by rank.
  std::vector<std::string> gather_texts(const std::string& text);

 private:
  struct Connection;
  explicit ProcessGroup(const Launch& launch);
  template <class Begin>
  Pending run(std::string what, Begin begin);

  Launch launch_;
  std::unique_ptr<Connection> connection_;  // Null for one process.
  double seconds_waited_ = 0;
};

// Replaces the tensors by those of rank 0.
void broadcast_all(ProcessGroup& group, const std::vector<at::Tensor>& tensors);
// Returns the sums of numbers over all processes.
std::vector<double> sums_of(ProcessGroup& group, std::vector<double> numbers);
double sum_of(ProcessGroup& group, double number);
// Runs `work` in all processes, or in rank 0 only, and throws UserError(file) that names the rank in all of them if it fails in one.
void run_everywhere(ProcessGroup& group, const std::function<void()>& work);
void run_in_main(ProcessGroup& group, const std::function<void()>& work);

}  // namespace tenon::dist
