// Threads that use the tensors of a compiled function, with and without a lock of the program.
#include <torch/csrc/jit/runtime/profiling_graph_executor_impl.h>

#include <atomic>
#include <mutex>
#include <shared_mutex>
#include <sstream>
#include <thread>

#include "hostile/hostile.h"

namespace tenon::test {
namespace {

using torch::Tensor;

// Runs `reader` on a thread of its own while `step` is called on this one.
void beside(const std::function<void(int)>& step, const std::function<void()>& reader) {
  std::atomic<bool> stop{false};
  std::thread other([&] {
    torch::NoGradGuard off;
    while (!stop) reader();
  });
  run_for_a_while(step);
  stop = true;
  other.join();
}

struct Trainer {
  torch::nn::Sequential net{torch::nn::Linear(32, 64), torch::nn::ReLU(), torch::nn::Linear(64, 32)};
  torch::optim::SGD optimizer{net->parameters(), torch::optim::SGDOptions(1e-4).momentum(0.9)};

  Tensor loss(const Tensor& x) { return (net->forward(x) - 1).pow(2).mean(); }
  Tensor step(const Tensor& x) {
    optimizer.zero_grad();
    auto value = loss(x);
    value.backward();
    optimizer.step();
    return value;
  }
};

bool is_sound(const Tensor& values) { return torch::isfinite(values).all().item<bool>() && values.abs().max().item<float>() < 1e3; }

bool is_constant(const Tensor& values) { return values.min().item<float>() == values.max().item<float>(); }

HOSTILE(locked_update_locked_reader) {
  std::mutex mutex;
  Trainer trainer;
  auto step = compile([&](Tensor x) {
    auto loss = trainer.loss(x);
    trainer.optimizer.zero_grad();
    loss.backward();
    std::lock_guard lock(mutex);
    trainer.optimizer.step();
    return loss;
  });
  beside(
      [&](int) {
        step(torch::randn({8, 32}));
      },
      [&] {
        std::vector<Tensor> copies;
        {
          std::lock_guard lock(mutex);
          for (const Tensor& p : trainer.net->parameters()) copies.push_back(p.detach().clone());
        }
        for (const Tensor& copy : copies) expect(is_sound(copy), "the reader copied a broken parameter");
      });
}

// The reader sees an update completely or not at all, and never an older state than before.
HOSTILE(locked_counter) {
  std::mutex mutex;
  Tensor counter = torch::zeros({1000});
  auto add = compile([&](Tensor x) {
    auto d = x * 2;
    std::lock_guard lock(mutex);
    counter.add_(d);
    return d.sum();
  });
  torch::NoGradGuard off;
  std::atomic<int> calls{0};
  float last = 0;
  beside(
      [&](int) {
        add(torch::ones({1000}));
        ++calls;
      },
      [&] {
        Tensor copy;
        int before = calls;
        {
          std::lock_guard lock(mutex);
          copy = counter.clone();
        }
        expect(is_constant(copy), "the reader saw half of an update");
        float now = copy[0].item<float>();
        expect(now >= last, "the reader saw an older state");
        expect(now >= 2.0F * static_cast<float>(before), "the reader missed an update");
        last = now;
      });
  expect(counter[0].item<float>() == 2.0F * static_cast<float>(calls), "an update was lost");
}

// A readers-writer lock: two readers may read one update at the same time, through const pointers.
HOSTILE(shared_lock_two_readers) {
  std::shared_mutex mutex;
  Tensor values = torch::zeros({5000});
  auto add = compile([&](Tensor x) {
    auto d = x + 1;
    std::unique_lock lock(mutex);
    values.add_(d);
    return d;
  });
  torch::NoGradGuard off;
  auto read = [&] {
    std::this_thread::sleep_for(std::chrono::microseconds(100));  // Readers without a pause would starve the writer.
    std::shared_lock lock(mutex);
    const float* begin = values.const_data_ptr<float>();
    for (int i = 1; i < 5000; ++i) expect(begin[i] == begin[0], "a reader saw half of an update");
  };
  std::atomic<bool> stop{false};
  std::thread second([&] {
    while (!stop) read();
  });
  beside([&](int) { add(torch::ones({5000})); }, read);
  stop = true;
  second.join();
}

// An update that a flag publishes is visible when the flag is seen.
HOSTILE(published_by_flag) {
  Tensor values = torch::zeros({1000});
  std::atomic<int> published{0}, taken{0};
  std::atomic<bool> stop{false};
  std::thread reader([&] {
    torch::NoGradGuard off;
    while (!stop) {
      int now = published;
      if (now == taken) continue;
      expect(values[7].item<float>() == 2.0F * static_cast<float>(now), "the flag came before the update");
      taken = now;
    }
  });
  int count = 0;
  auto add = compile([&](Tensor x) {
    values.add_(x * 2);
    published = ++count;
    while (taken < count) std::this_thread::yield();
    return x + 1;
  });
  {
    torch::NoGradGuard off;
    for (int i = 0; i < 300; ++i) add(torch::ones({1000}));
  }
  stop = true;
  reader.join();
}

// No thread locks, as in Hogwild training: updates may be seen partially, but nothing crashes and no value is garbage.
HOSTILE(unlocked_actor) {
  Trainer trainer;
  auto step = compile([&](Tensor x) { return trainer.step(x); });
  auto x = torch::ones({4, 32});
  beside([&](int) { step(torch::randn({8, 32})); }, [&] { expect(is_sound(trainer.net->forward(x)), "the actor computed with garbage"); });
}

HOSTILE(unlocked_save) {
  Trainer trainer;
  auto step = compile([&](Tensor x) { return trainer.step(x); });
  beside(
      [&](int) {
        step(torch::randn({8, 32}));
      },
      [&] {
        std::stringstream file;
        torch::save(trainer.net, file);
        torch::nn::Sequential copy{torch::nn::Linear(32, 64), torch::nn::ReLU(), torch::nn::Linear(64, 32)};
        torch::load(copy, file);
        for (const Tensor& p : copy->parameters()) expect(is_sound(p), "a saved parameter is garbage");
      });
}

// The reader keeps a pointer across updates.
HOSTILE(unlocked_kept_pointer) {
  Tensor values = torch::zeros({4096});
  auto add = compile([&](Tensor x) {
    values.add_(x * 2);
    return x + 1;
  });
  torch::NoGradGuard off;
  double sum = 0;
  std::atomic<bool> stop{false};
  std::thread reader([&] {
    while (!stop) {
      const float* begin = values.const_data_ptr<float>();
      for (int round = 0; round < 20; ++round)
        for (int i = 0; i < 4096; i += 512) sum += begin[i];
    }
  });
  run_for_a_while([&](int) { add(torch::ones({4096})); });
  stop = true;
  reader.join();
  expect(std::isfinite(sum), "the reader saw garbage");
}

HOSTILE(two_compiled_trainers_of_one_model) {
  Trainer trainer;
  auto train = [&] {
    auto step = compile([&](Tensor x) {
      auto loss = trainer.loss(x);
      auto gradients = torch::autograd::grad({loss}, trainer.net->parameters());
      torch::NoGradGuard off;
      auto parameters = trainer.net->parameters();
      for (size_t i = 0; i < parameters.size(); ++i) parameters[i].data().sub_(gradients[i] * 1e-4);
      return loss;
    });
    run_for_a_while([&](int) { expect(is_sound(step(torch::randn({8, 32}))), "a trainer computed garbage"); });
  };
  std::thread second(train);
  train();
  second.join();
  for (const Tensor& p : trainer.net->parameters()) expect(is_sound(p), "a parameter is garbage");
}

// Both functions are compiled and take the same lock: no update may be lost or seen partially.
HOSTILE(two_compiled_counters_under_one_lock) {
  std::mutex mutex;
  Tensor counter = torch::zeros({512});
  std::atomic<int> calls{0};
  auto count = [&] {
    torch::NoGradGuard off;
    auto add = compile([&](Tensor x) {
      auto d = x * 2;
      Tensor seen;
      {
        std::lock_guard lock(mutex);
        counter.add_(d);
        seen = counter * 1;
      }
      return seen + d;
    });
    run_for_a_while([&](int) {
      expect(is_constant(add(torch::ones({512}))), "a function saw half of an update");
      ++calls;
    });
  };
  std::thread second(count);
  count();
  second.join();
  expect(counter[3].item<float>() == 2.0F * static_cast<float>(calls), "an update was lost");
}

// Each thread decodes greedily: an index that is computed and read inside the call selects a row of the table.
HOSTILE(two_compiled_decoders) {
  Tensor table = torch::randn({50, 16}), head = torch::randn({16, 50});
  auto decode = [&] {
    torch::NoGradGuard off;
    auto body = [&](Tensor h) {
      for (int step = 0; step < 6; ++step) {
        auto next = torch::matmul(h, head).argmax(-1);
        if (next[0].item<int64_t>() == 7) break;
        h = torch::tanh(torch::embedding(table, next) + h);
      }
      return h;
    };
    auto fast = compile(body);
    run_for_a_while([&](int i) {
      auto x = torch::full({2, 16}, 0.01 * (i % 8));
      expect(torch::allclose(fast(x), body(x), 1e-4, 1e-4), "a decoder differs");
    });
  };
  std::thread second(decode);
  decode();
  second.join();
}

// A compiled function reads under a lock while another thread writes in eager mode under the same lock.
HOSTILE(compiled_reader_plain_writer) {
  std::mutex mutex;
  Tensor values = torch::zeros({2048});
  auto read = compile([&](Tensor x) {
    Tensor y;
    {
      std::lock_guard lock(mutex);
      y = values * 2;
    }
    return y + x;
  });
  torch::NoGradGuard off;
  beside([&](int) { expect(is_constant(read(torch::ones({2048}))), "the compiled reader saw half of an update"); },
         [&] {
           std::lock_guard lock(mutex);
           values.add_(1);
         });
}

HOSTILE(torchscript_profiling_stays_on) {
  auto f = compile([](Tensor x) {
    auto y = x * 2;
    std::this_thread::sleep_for(std::chrono::microseconds(300));
    return y + 1;
  });
  bool before = torch::jit::getProfilingMode();
  auto call = [&] {
    torch::NoGradGuard off;
    for (int i = 0; i < 50; ++i) f(torch::ones({4}));
  };
  std::thread second(call);
  call();
  second.join();
  expect(torch::jit::getProfilingMode() == before, "TorchScript's profiling mode was changed for the process");
}

}  // namespace
}  // namespace tenon::test
