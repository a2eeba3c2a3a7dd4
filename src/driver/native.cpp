#include "driver/native.h"

#include <cstdlib>
#include <map>
#include <mutex>

#include "base/error.h"
#include "driver/kernel_check.h"
#include "ir/loop/print.h"
#include "ir/loop/verify.h"
#include "loops/lower.h"
#include "passes/fusion/find_groups.h"
#ifdef TENON_NATIVE
#include "codegen/codegen.h"
#endif

namespace tenon::driver {

#ifdef TENON_NATIVE
namespace {

// Elements that are worth a thread; eager's own number.
constexpr int64_t kGrain = 32768;

// Code by the text of its kernel, for as long as somebody uses it.
class Codes {
 public:
  std::shared_ptr<const codegen::Code> get(const ir::loop::Kernel& kernel) {
    std::string key = ir::loop::key(kernel);
    {
      std::lock_guard lock(mutex_);
      if (auto known = codes_[key].lock()) return known;
    }
    ir::loop::verify(kernel);
    auto code = codegen::compile(kernel, codegen::best_tier());
    std::lock_guard lock(mutex_);
    codes_[key] = code;
    return code;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<const codegen::Code>> codes_;
};

Codes& codes() {
  static Codes* all = new Codes;
  return *all;
}

runtime::KernelStep bind(const loops::Lowered& lowered) {
  auto code = codes().get(lowered.kernel);
  runtime::KernelStep step{code->run, code, {}, lowered.sizes, lowered.iterations};
  for (const loops::Number& number : lowered.numbers) step.numbers.emplace_back(number.scalar, number.known);
  step.grain = std::max<int64_t>(1, kGrain * lowered.iterations / std::max<int64_t>(1, lowered.elements));
  return step;
}

}  // namespace

Native make_native(const ir::Graph& graph, double verify, std::shared_ptr<Quarantine> quarantine) {
  static const bool check_all = std::getenv("TENON_CHECK_KERNELS") != nullptr;
  std::vector<ir::Group> groups = passes::find_groups(graph);
  Native native;
  for (size_t g = 0; g < groups.size(); ++g) {
    runtime::KernelStep step = bind(loops::lower(graph, groups[g], graph.name + "_" + std::to_string(g)));
    if (check_all || verify > 0) {
      auto check = std::make_shared<const KernelCheck>(graph, groups[g], check_all ? 1 : verify, check_all, step, quarantine);
      step.check = [check](auto inputs, auto outputs, auto scalars) { (*check)(inputs, outputs, scalars); };
    }
    native.kernels.push_back(std::move(step));
  }
  native.graph = passes::fuse(graph, groups);
  return native;
}

bool has_native() { return true; }
#else
Native make_native(const ir::Graph&, double, std::shared_ptr<Quarantine>) { throw InternalError("this build generates no code"); }
bool has_native() { return false; }
#endif

}  // namespace tenon::driver
