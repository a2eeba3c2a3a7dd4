#include "dist/process_group.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <mutex>
#include <vector>

#include "base/error.h"
#include "dist/monitor.h"

namespace tenon::dist {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kJoinTimeout{300'000};

// Element types that Gloo adds up.
bool can_sum(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
    case at::kDouble:
    case at::kHalf:
    case at::kBFloat16:
    case at::kInt:
    case at::kLong:
    case at::kChar:
    case at::kByte:
      return true;
    default:
      return false;
  }
}

// Moving bytes works for all types.
at::Tensor bytes_of(const at::Tensor& tensor) { return tensor.view(-1).view(at::kByte); }

// For the name of a collective.
std::string of(const at::Tensor& tensor) { return " of " + std::to_string(tensor.numel()) + " " + c10::toString(tensor.scalar_type()); }

c10::intrusive_ptr<c10d::Store> connect(const Launch& launch) {
  c10d::TCPStoreOptions options;
  options.port = launch.port;
  options.isServer = launch.rank == 0 && !launch.has_agent_store;
  options.multiTenant = options.isServer;
  options.numWorkers = static_cast<size_t>(launch.size);
  options.timeout = kJoinTimeout;
  // Kept until the process ends, because others may still need a store that this process serves.
  static auto* const store = new c10::intrusive_ptr<c10d::Store>(c10::make_intrusive<c10d::TCPStore>(launch.address, options));
  // Neither a restarted job nor a second group of this process may read what was written before.
  static int groups = 0;
  return c10::make_intrusive<c10d::PrefixStore>("tenon/" + std::to_string(launch.attempt) + "/" + std::to_string(groups++), *store);
}

}  // namespace

struct ProcessGroup::Connection {
  c10::intrusive_ptr<c10d::Store> store;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> gloo;
  std::shared_ptr<Monitor> monitor;

  ~Connection() {
    if (monitor) monitor->leave();
  }
};

ProcessGroup::ProcessGroup(const Launch& launch) : launch_(launch) {}
// Gloo writes to sockets of processes that may have died. By default the signal would end this process before it can say which one has.
static void ignore_broken_pipes() {
  struct sigaction now {};
  if (sigaction(SIGPIPE, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) std::signal(SIGPIPE, SIG_IGN);
}

ProcessGroup::~ProcessGroup() = default;

std::shared_ptr<ProcessGroup> ProcessGroup::join(const Launch& launch, double timeout_seconds) {
  static std::mutex mutex;
  static std::weak_ptr<ProcessGroup> joined;
  std::lock_guard lock(mutex);
  if (auto known = joined.lock()) return known;
  std::shared_ptr<ProcessGroup> group(new ProcessGroup(launch));
  if (launch.size == 1) return group;
  ignore_broken_pipes();
  auto connection = std::make_unique<Connection>();
  try {
    connection->store = connect(launch);
    milliseconds timeout(static_cast<int64_t>(std::clamp(timeout_seconds, 0.001, 1e9) * 1000));
    auto options = c10d::ProcessGroupGloo::Options::create_default(timeout);
    options->threads = 2;
    auto store = c10::make_intrusive<c10d::PrefixStore>("monitor", connection->store->clone());
    connection->monitor = Monitor::start(store, launch.rank, launch.size, timeout_seconds, launch.has_agent_store);
    connection->monitor->set_waiting(true);
    connection->gloo = c10::make_intrusive<c10d::ProcessGroupGloo>(c10::make_intrusive<c10d::PrefixStore>("gloo", connection->store),
                                                                   launch.rank, launch.size, options);
    connection->monitor->set_waiting(false);
  } catch (const std::exception& error) {
    std::string text = error.what();
    throw UserError(ErrorCode::distributed, "rank " + std::to_string(launch.rank) + " of " + std::to_string(launch.size) +
                                                " cannot join the job at " + launch.address + ":" + std::to_string(launch.port) + ": " +
                                                text.substr(0, text.find('\n')) +
                                                ". Check that all processes were started with the same MASTER_ADDR, MASTER_PORT and "
                                                "WORLD_SIZE, and that GLOO_SOCKET_IFNAME names a network that they share.");
  }
  group->connection_ = std::move(connection);
  joined = group;
  return group;
}

template <class Begin>
Pending ProcessGroup::run(std::string what, Begin begin) {
  if (!connection_) return {};
  Connection& connection = *connection_;
  connection.monitor->begin_collective(std::move(what));
  c10::intrusive_ptr<c10d::Work> work;
  try {
    work = begin(*connection.gloo);
  } catch (const std::exception& error) {
    connection.monitor->report_failure(error.what());
  }
  return Pending([this, &connection, work] {
    auto start = std::chrono::steady_clock::now();
    connection.monitor->set_waiting(true);
    try {
      work->wait();
    } catch (const std::exception& error) {
      connection.monitor->report_failure(error.what());
    }
    connection.monitor->set_waiting(false);
    seconds_waited_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  });
}

Pending ProcessGroup::sum(const at::Tensor& tensor) {
  if (!can_sum(tensor.scalar_type()))
    throw UserError(ErrorCode::shape, std::string("tensors of type ") + c10::toString(tensor.scalar_type()) +
                                          " cannot be added up over processes. Convert them to float or int64.");
  tensor.mutable_data_ptr();  // Computes deferred contents here rather than on a thread of Gloo.
  return run("sum" + of(tensor), [&](c10d::ProcessGroupGloo& gloo) {
    std::vector<at::Tensor> tensors{tensor};
    return gloo.allreduce(tensors);
  });
}

Pending ProcessGroup::broadcast(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return {};
  tensor.mutable_data_ptr();
  return run("broadcast" + of(tensor), [&](c10d::ProcessGroupGloo& gloo) {
    std::vector<at::Tensor> tensors{bytes_of(tensor)};
    return gloo.broadcast(tensors);
  });
}

Pending ProcessGroup::gather(const at::Tensor& tensor, const at::Tensor& out) {
  if (!connection_) {
    out.view(-1).copy_(tensor.view(-1));
    return {};
  }
  if (tensor.numel() == 0) return {};
  tensor.mutable_data_ptr();
  return run("gather" + of(tensor), [&](c10d::ProcessGroupGloo& gloo) {
    at::Tensor input = bytes_of(tensor), output = bytes_of(out);
    return gloo._allgather_base(output, input);
  });
}

void ProcessGroup::barrier() {
  run("barrier", [](c10d::ProcessGroupGloo& gloo) { return gloo.barrier(); }).wait();
}

std::vector<std::string> ProcessGroup::gather_texts(const std::string& text) {
  auto count = static_cast<int64_t>(size());
  at::Tensor length = at::full({1}, static_cast<int64_t>(text.size()), at::kLong), lengths = at::empty({count}, at::kLong);
  gather(length, lengths).wait();
  int64_t longest = std::max<int64_t>(1, lengths.max().item<int64_t>());
  at::Tensor bytes = at::zeros({longest}, at::kByte), all = at::empty({count * longest}, at::kByte);
  std::memcpy(bytes.mutable_data_ptr(), text.data(), text.size());
  gather(bytes, all).wait();
  std::vector<std::string> out;
  for (int64_t r = 0; r < count; ++r)
    out.emplace_back(static_cast<const char*>(all.const_data_ptr()) + r * longest, static_cast<size_t>(lengths[r].item<int64_t>()));
  return out;
}

void broadcast_all(ProcessGroup& group, const std::vector<at::Tensor>& tensors) {
  if (group.size() == 1 || tensors.empty()) return;
  at::NoGradGuard no_grad;
  std::vector<at::Tensor> values;
  std::vector<Pending> pending;
  for (const at::Tensor& tensor : tensors) {
    values.push_back(tensor.detach().contiguous());
    pending.push_back(group.broadcast(values.back()));
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    pending[i].wait();
    if (!values[i].is_alias_of(tensors[i])) tensors[i].detach().copy_(values[i]);
  }
}

std::vector<double> sums_of(ProcessGroup& group, std::vector<double> numbers) {
  at::Tensor sums = at::from_blob(numbers.data(), {static_cast<int64_t>(numbers.size())}, at::kDouble);
  group.sum(sums).wait();
  return numbers;
}

double sum_of(ProcessGroup& group, double number) { return sums_of(group, {number})[0]; }

void run_everywhere(ProcessGroup& group, const std::function<void()>& work) {
  std::string failure;
  try {
    work();
  } catch (const Error& error) {
    failure = error.what();
    if (group.size() == 1) throw;
  } catch (const std::exception& error) {
    failure = error.what();
    if (group.size() == 1) throw UserError(ErrorCode::file, failure);
  }
  if (group.size() == 1) return;
  std::vector<std::string> failures = group.gather_texts(failure);
  for (size_t rank = 0; rank < failures.size(); ++rank)
    if (!failures[rank].empty()) throw UserError(ErrorCode::file, "rank " + std::to_string(rank) + ": " + failures[rank]);
}

void run_in_main(ProcessGroup& group, const std::function<void()>& work) {
  run_everywhere(group, [&] {
    if (group.rank() == 0) work();
  });
}

}  // namespace tenon::dist
