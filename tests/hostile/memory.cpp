// Memory limits, shared memory, system calls on contents, memory growth.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cstring>
#include <fstream>

#include "hostile/hostile.h"

namespace tenon::test {
namespace {

using torch::Tensor;

constexpr size_t kGigabyte = size_t{1} << 30;

// A value of /proc/self/status in bytes.
size_t status(const std::string& name) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);)
    if (line.rfind(name + ":", 0) == 0) return std::stoull(line.substr(name.size() + 1)) * 1024;
  return 0;
}

void limit_addresses(size_t bytes) {
  rlimit limit{bytes, bytes};
  expect(setrlimit(RLIMIT_AS, &limit) == 0, "setrlimit");
}

void call_a_few_times() {
  torch::NoGradGuard off;
  Tensor state = torch::zeros({64});
  auto body = [](Tensor x, Tensor into) {
    auto y = torch::softmax(x * 2, -1);
    into.add_(y);
    return y + static_cast<double>(y.const_data_ptr<float>()[1]) + into;
  };
  auto fast = compile([&](Tensor x) { return body(x, state); });
  Tensor plain = torch::zeros({64});
  for (int i = 0; i < 8; ++i) {
    auto x = torch::randn({64});
    expect_equal(fast(x), body(x, plain), "call " + std::to_string(i));
  }
}

// At least 15/16 of the limit stays available to the program.
HOSTILE(address_limit_of_20_gigabytes) {
  limit_addresses(20 * kGigabyte);
  call_a_few_times();
  std::vector<Tensor> kept;
  size_t mapped = status("VmSize");
  for (size_t used = mapped; used + kGigabyte < 20 * kGigabyte; used += kGigabyte) kept.push_back(torch::empty({1 << 28}));
  expect(kept.size() >= 16, "only " + std::to_string(kept.size()) + " GB are available to the program");
}

HOSTILE(address_limit_just_above_what_is_mapped) {
  limit_addresses(status("VmSize") + kGigabyte / 2);
  call_a_few_times();
}

// The pending results need more addresses than are available.
HOSTILE(address_limit_below_what_waits) {
  limit_addresses(status("VmSize") + kGigabyte);
  torch::NoGradGuard off;
  auto body = [](Tensor x) {
    Tensor sum = torch::zeros_like(x);
    for (int i = 0; i < 120; ++i) sum = sum + (x * 2 + i);
    return sum;
  };
  auto fast = compile(body);
  for (int i = 0; i < 4; ++i) {
    auto x = torch::arange(1 << 18).remainder(100).to(torch::kFloat) + i;
    expect_equal(fast(x), body(x), "call " + std::to_string(i));
  }
}

// A container's memory limit counts used pages, not addresses.
HOSTILE(memory_limit_of_a_container) {
  std::string folder = "/sys/fs/cgroup/memory/tenon_" + std::to_string(getpid());
  if (mkdir(folder.c_str(), 0755) != 0) skip("no memory cgroup can be made here");
  auto write_to = [&](const std::string& file, const std::string& text) {
    return static_cast<bool>(std::ofstream(folder + file) << text << std::flush);
  };
  pid_t child = fork();
  if (child == 0) {
    bool limited = write_to("/memory.limit_in_bytes", std::to_string(kGigabyte)) && write_to("/cgroup.procs", std::to_string(getpid()));
    if (!limited) _exit(2);
    call_a_few_times();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  rmdir(folder.c_str());
  if (WIFEXITED(status) && WEXITSTATUS(status) == 2) skip("no memory cgroup can be joined here");
  expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status " + std::to_string(status));
}

// ---- system calls on contents ----

struct TemporaryFile {
  char path[32] = "/tmp/tenon_contents_XXXXXX";
  int descriptor = mkstemp(path);
  ~TemporaryFile() {
    close(descriptor);
    unlink(path);
  }
  std::vector<float> contents() const {
    std::ifstream file(path, std::ios::binary);
    std::vector<float> all;
    for (float value = 0; file.read(reinterpret_cast<char*>(&value), sizeof value);) all.push_back(value);
    return all;
  }
};

// Runs a body that passes tensors to `send`, compiled and eager, and compares the bytes that were sent.
void compare_sent(const std::function<void(const std::function<void(const Tensor&)>&, Tensor)>& body,
                  const std::function<void(int, const Tensor&)>& send) {
  TemporaryFile compiled, plain;
  auto fast = compile([&](Tensor x) {
    body([&](const Tensor& t) { send(compiled.descriptor, t); }, x);
    return x + 1;
  });
  torch::NoGradGuard off;
  for (int i = 0; i < 6; ++i) {
    auto x = torch::randn({64});
    fast(x.clone());
    body([&](const Tensor& t) { send(plain.descriptor, t); }, x.clone());
  }
  expect(compiled.contents().size() == plain.contents().size() && !plain.contents().empty(), "contents were lost");
  auto as_tensor = [](std::vector<float> values) { return torch::tensor(values); };
  expect_equal(as_tensor(compiled.contents()), as_tensor(plain.contents()), "other contents were sent");
}

void send_by_write(int descriptor, const Tensor& t) {
  expect(write(descriptor, t.const_data_ptr(), t.nbytes()) == static_cast<ssize_t>(t.nbytes()), "write failed");
}

void send_results(const std::function<void(const Tensor&)>& send, Tensor x) {
  auto y = x * 2;
  send(y);
  auto z = torch::relu(y + 1);
  send(z.view({8, 8}));
  send(z.slice(0, 3, 9));
}

void send_updated_argument(const std::function<void(const Tensor&)>& send, Tensor x) {
  x.mul_(3);
  send(x);
  x.view({8, 8}).add_(1);
  send(x);
  send(x.detach());
}

// libtorch computes `3 - x` as `empty_like(x).fill_(3).sub_(x)`: memory that is allocated at once and filled later.
void send_filled(const std::function<void(const Tensor&)>& send, Tensor x) {
  send(3 - x);
  send(torch::empty_like(x).copy_(x));
  send(torch::zeros({4}).add_(x.slice(0, 0, 4)));
}

HOSTILE(write_of_results) { compare_sent(&send_results, &send_by_write); }

HOSTILE(write_of_filled_memory) { compare_sent(&send_filled, &send_by_write); }

HOSTILE(write_of_an_updated_argument) { compare_sent(&send_updated_argument, &send_by_write); }

HOSTILE(stream_write) {
  compare_sent(&send_results, [](int descriptor, const Tensor& t) {
    std::ofstream file("/proc/self/fd/" + std::to_string(descriptor), std::ios::binary | std::ios::app);
    file.write(static_cast<const char*>(t.const_data_ptr()), static_cast<std::streamsize>(t.nbytes()));
    expect(static_cast<bool>(file), "the stream failed");
  });
}

// Sends results through a socket by sendmsg, in two segments.
HOSTILE(message_of_results) {
  int ends[2];
  expect(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
  compare_sent(&send_results, [&](int descriptor, const Tensor& t) {
    auto* begin = static_cast<char*>(const_cast<void*>(t.const_data_ptr()));
    iovec pieces[2] = {{begin, t.nbytes() / 2}, {begin + t.nbytes() / 2, t.nbytes() - t.nbytes() / 2}};
    msghdr message{};
    message.msg_iov = pieces;
    message.msg_iovlen = 2;
    expect(sendmsg(ends[0], &message, 0) == static_cast<ssize_t>(t.nbytes()), "sendmsg failed");
    std::vector<char> received(t.nbytes());
    expect(recv(ends[1], received.data(), received.size(), MSG_WAITALL) == static_cast<ssize_t>(t.nbytes()), "recv failed");
    expect(write(descriptor, received.data(), received.size()) == static_cast<ssize_t>(received.size()), "write failed");
  });
}

HOSTILE(parameter_written_to_a_file_after_its_update) {
  torch::nn::Linear fc(8, 8), twin(8, 8);
  {
    torch::NoGradGuard off;
    for (size_t i = 0; i < 2; ++i) twin->parameters()[i].copy_(fc->parameters()[i]);
  }
  TemporaryFile compiled, plain;
  auto step = [](torch::nn::Linear& net, int descriptor, Tensor x) {
    auto gradients = torch::autograd::grad({net(x).pow(2).mean()}, net->parameters());
    torch::NoGradGuard off;
    net->weight.sub_(gradients[0] * 0.1);
    send_by_write(descriptor, net->weight);
    return x + 1;
  };
  auto fast = compile([&](Tensor x) { return step(fc, compiled.descriptor, x); });
  for (int i = 0; i < 6; ++i) {
    auto x = torch::randn({4, 8});
    fast(x);
    step(twin, plain.descriptor, x);
  }
  expect(compiled.contents().size() == 6 * 64, "contents were lost");
  expect_equal(torch::tensor(compiled.contents()), torch::tensor(plain.contents()), "other weights were written");
}

// ---- shared memory ----

// Two tensors cover one mapped file: one is written, the other one is read.
HOSTILE(two_tensors_over_a_mapped_file) {
  TemporaryFile file, twin;
  auto map = [](int descriptor) {
    expect(ftruncate(descriptor, 4096) == 0, "ftruncate");
    return static_cast<float*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0));
  };
  float *memory = map(file.descriptor), *plain = map(twin.descriptor);
  auto over = [](float* begin) { return torch::from_blob(begin, {64}, [](void*) {}); };
  auto body = [](Tensor a, Tensor b) {
    a.mul_(2);
    auto s = b + 1;
    a.add_(1);
    return s + b;
  };
  auto fast = compile(body);
  torch::NoGradGuard off;
  for (int i = 0; i < 8; ++i) {
    for (int k = 0; k < 128; ++k) memory[k] = plain[k] = static_cast<float>(k + i);
    expect_equal(fast(over(memory), over(memory + 16)), body(over(plain), over(plain + 16)), "call " + std::to_string(i));
    expect(std::memcmp(memory, plain, 512) == 0, "the file holds something else");
  }
}

// ---- growth ----

HOSTILE(ten_thousand_calls_do_not_grow) {
  torch::nn::Linear fc(16, 16);
  torch::optim::SGD optimizer(fc->parameters(), 1e-3);
  auto step = compile([&](Tensor x) {
    optimizer.zero_grad();
    auto loss = fc(x).pow(2).mean();
    loss.backward();
    optimizer.step();
    return loss;
  });
  auto read = compile([&](Tensor x) {
    torch::NoGradGuard off;
    auto y = fc(x);
    return y + static_cast<double>(y.const_data_ptr<float>()[0]);
  });
  auto call = [&](int i) {
    step(torch::ones({4, 16}));
    read(torch::ones({1 + i % 4, 16}));
  };
  for (int i = 0; i < 1000; ++i) call(i);
  size_t before = status("RssAnon");
  for (int i = 0; i < 10000; ++i) call(i);
  size_t after = status("RssAnon");
  expect(after < before + (size_t{1} << 20), "memory grew by " + std::to_string((after - before) / 1024) + " kB");
}

}  // namespace
}  // namespace tenon::test
