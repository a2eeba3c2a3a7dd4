// slow_link NAMESPACE_A NAMESPACE_B DELAY_US MBIT: a network link with a delay and a rate between two network namespaces, for kernels
// without netem. Creates the device `slow0` in each namespace and moves frames between them until it is killed. Needs root.
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

namespace {

constexpr int kHeaderBytes = 10;                      // The virtio header of each frame, which lets large TCP segments pass whole.
constexpr int kWireBytes = 24;                        // Preamble, checksum and gap of an Ethernet frame.
constexpr size_t kMostQueuedBytes = size_t{4} << 20;  // Frames beyond are dropped, as by a switch.

int64_t now_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

int open_device(const char* name_space) {
  int space = open((std::string("/var/run/netns/") + name_space).c_str(), O_RDONLY | O_CLOEXEC);
  if (space < 0 || setns(space, CLONE_NEWNET) != 0) fail(name_space);
  close(space);
  int device = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (device < 0) fail("/dev/net/tun");
  ifreq request{};
  request.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
  std::strcpy(request.ifr_name, "slow0");
  if (ioctl(device, TUNSETIFF, &request) != 0) fail("TUNSETIFF");
  int header = kHeaderBytes;
  if (ioctl(device, TUNSETVNETHDRSZ, &header) != 0) fail("TUNSETVNETHDRSZ");
  if (ioctl(device, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6) != 0) fail("TUNSETOFFLOAD");
  return device;
}

struct Frame {
  int64_t due;
  std::vector<char> bytes;
};

// Frames from one end to the other.
class Direction {
 public:
  Direction(int from, int to, int64_t delay_ns, double ns_per_byte)
      : from_(from), to_(to), delay_ns_(delay_ns), ns_per_byte_(ns_per_byte) {}

  void read_frames() {
    static std::array<char, 1 << 17> buffer;
    for (int i = 0; i < 16; ++i) {
      ssize_t count = read(from_, buffer.data(), buffer.size());
      if (count <= 0) return;
      if (queued_ + static_cast<size_t>(count) > kMostQueuedBytes) continue;
      double duration = static_cast<double>(count - kHeaderBytes + kWireBytes) * ns_per_byte_;
      free_at_ = std::max(now_ns(), free_at_) + static_cast<int64_t>(duration);
      frames_.push_back({free_at_ + delay_ns_, {buffer.begin(), buffer.begin() + count}});
      queued_ += static_cast<size_t>(count);
    }
  }

  // Returns when the next frame is due, or `otherwise`.
  int64_t write_frames(int64_t now, int64_t otherwise) {
    while (!frames_.empty() && frames_.front().due <= now) {
      const std::vector<char>& bytes = frames_.front().bytes;
      if (write(to_, bytes.data(), bytes.size()) < 0) {
      }  // A device that is down drops frames.
      queued_ -= bytes.size();
      frames_.pop_front();
    }
    return frames_.empty() ? otherwise : std::min(otherwise, frames_.front().due);
  }

 private:
  int from_, to_;
  int64_t delay_ns_;
  double ns_per_byte_;
  std::deque<Frame> frames_;
  size_t queued_ = 0;
  int64_t free_at_ = 0;  // The time at which the wire has sent what it got so far.
};

}  // namespace

int main(int count, char** arguments) {
  if (count != 5) return std::fprintf(stderr, "slow_link NAMESPACE_A NAMESPACE_B DELAY_US MBIT\n"), 2;
  int a = open_device(arguments[1]), b = open_device(arguments[2]);
  int64_t delay_ns = std::atoll(arguments[3]) * 1000;
  double ns_per_byte = 8e3 / std::atof(arguments[4]);
  Direction forth(a, b, delay_ns, ns_per_byte), back(b, a, delay_ns, ns_per_byte);
  prctl(PR_SET_TIMERSLACK, 1000);  // Wakes up on time.
  std::puts("ready");
  std::fflush(stdout);
  for (;;) {
    int64_t now = now_ns();
    int64_t next = back.write_frames(now, forth.write_frames(now, now + 1'000'000'000));
    pollfd ends[2] = {{a, POLLIN, 0}, {b, POLLIN, 0}};
    int64_t wait = std::max<int64_t>(0, next - now_ns());
    timespec timeout{wait / 1'000'000'000, wait % 1'000'000'000};
    if (ppoll(ends, 2, &timeout, nullptr) <= 0) continue;
    if (ends[0].revents) forth.read_frames();
    if (ends[1].revents) back.read_frames();
  }
}
