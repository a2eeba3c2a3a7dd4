#include "runtime/product.h"

#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>
#include <ATen/Parallel.h>
#include <dlfcn.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "bridge/convert.h"
#include "runtime/tiles.h"

namespace tenon::runtime {
namespace {

// MKL's calls for packed matrices, which libtorch exports without a header.
struct Mkl {
  enum : int { row_major = 101, no_turn = 111, turn = 112, packed = 151, right = 162 };
  using Size = size_t (*)(int which, int m, int n, int k);
  using Pack = void (*)(int layout, int which, int turn, int m, int n, int k, float alpha, const float* from, int stride, float* to);
  using Compute = void (*)(int layout, int turn_a, int turn_b, int m, int n, int k, const float* a, int stride_a, const float* b,
                           int stride_b, float beta, float* c, int stride_c);
  Size size = reinterpret_cast<Size>(dlsym(RTLD_DEFAULT, "cblas_sgemm_pack_get_size"));
  Pack pack = reinterpret_cast<Pack>(dlsym(RTLD_DEFAULT, "cblas_sgemm_pack"));
  Compute compute = reinterpret_cast<Compute>(dlsym(RTLD_DEFAULT, "cblas_sgemm_compute"));
  bool is_there() const { return size && pack && compute; }

  static const Mkl& get() {
    static const Mkl mkl;
    return mkl;
  }
};

at::Tensor call(const c10::OperatorHandle& op, torch::jit::Stack stack) {
  op.callBoxed(&stack);
  return stack[0].toTensor();
}

at::Tensor room(const ProductOperands& p) {
  int64_t m = p.left.size(0), n = p.right.size(1);
  return bridge::empty_of({bridge::to_dtype(p.left.scalar_type()), {m, n}, {n, 1}});
}

struct Sizes {
  int m, n, k;
};
Sizes sizes_of(const ProductOperands& p) {
  return {static_cast<int>(p.left.size(0)), static_cast<int>(p.right.size(1)), static_cast<int>(p.left.size(1))};
}

bool is_turned(const at::Tensor& right) { return right.stride(0) == 1 && right.size(1) > 1; }

// A pack made for these rows serves any number of them.
constexpr int kRows = 128;

Packed pack_for_mkl(const at::Tensor& right) {
  const Mkl& mkl = Mkl::get();
  int k = static_cast<int>(right.size(0)), n = static_cast<int>(right.size(1));
  auto pages = std::make_shared<const Pages>(mkl.size(Mkl::right, kRows, n, k));
  bool turned = is_turned(right);
  mkl.pack(Mkl::row_major, Mkl::right, turned ? Mkl::turn : Mkl::no_turn, kRows, n, k, 1.0f, right.const_data_ptr<float>(), turned ? k : n,
           static_cast<float*>(pages->begin()));
  return {pages, {}, {}, pages->resident()};
}

Packed pack_for_onednn(const at::Tensor& right) {
  static const c10::OperatorHandle op = bridge::find_op("mkldnn::_reorder_linear_weight");
  return {nullptr, call(op, {bridge::lent(right).t().contiguous(), int64_t{kRows}}), {}, right.nbytes()};
}

Packed pack(const at::Tensor& right, Form form) {
  return form == Form::mkl ? pack_for_mkl(right) : form == Form::tiles ? pack_tiles(right) : pack_for_onednn(right);
}

std::array<int64_t, 4> geometry(const at::Tensor& right) { return {right.size(0), right.size(1), right.stride(0), right.stride(1)}; }

// In C order, what `beta` = 1 adds to.
void fill_rows(const at::Tensor& row, at::Tensor& out) {
  const char* from = static_cast<const char*>(row.const_data_ptr());
  char* to = static_cast<char*>(out.mutable_data_ptr());
  for (int64_t i = 0; i < out.size(0); ++i) std::memcpy(to + static_cast<size_t>(i) * row.nbytes(), from, row.nbytes());
}

void run_mkl(const ProductOperands& p, const Pack& pack, at::Tensor& out) {
  auto [m, n, k] = sizes_of(p);
  if (p.row.defined()) fill_rows(p.row, out);
  Mkl::get().compute(Mkl::row_major, Mkl::no_turn, Mkl::packed, m, n, k, p.left.const_data_ptr<float>(), static_cast<int>(p.left.stride(0)),
                     static_cast<const float*>(pack.packed.pages->begin()), k, p.row.defined() ? 1.0f : 0.0f, out.mutable_data_ptr<float>(),
                     n);
}

at::Tensor run_onednn(const ProductOperands& p, const Pack& pack, const std::string& gelu = "") {
  static const c10::OperatorHandle op = bridge::find_op("mkldnn::_linear_pointwise");
  c10::IValue row = p.row.defined() ? c10::IValue(p.row) : c10::IValue();
  return call(op, {p.left, pack.packed.tensor, row, gelu.empty() ? "none" : "gelu", c10::List<std::optional<at::Scalar>>(), gelu});
}

void run_by_tiles(const ProductOperands& p, const Pack& pack, at::Tensor& out) {
  auto [m, n, k] = sizes_of(p);
  auto at = [](const at::Tensor& t) { return t.const_data_ptr<at::BFloat16>(); };
  run_tiles({m, n, k, p.left.stride(0), at(p.left), at(pack.packed.tensor), p.row.defined() ? at(p.row) : nullptr,
             out.mutable_data_ptr<at::BFloat16>()});
}

void run_plain(const ProductOperands& p, at::Tensor& out) {
  if (p.row.defined()) at::addmm_out(out, p.row, p.left, p.right);
  else at::mm_out(out, p.left, p.right);
}

at::Tensor run_form(const ProductOperands& p, Form form, const Pack* pack, at::Tensor out) {
  if (pack && form == Form::onednn) return run_onednn(p, *pack);
  if (!out.defined()) out = room(p);
  if (pack && form == Form::tiles) run_by_tiles(p, *pack, out);
  else if (pack) run_mkl(p, *pack, out);
  else run_plain(p, out);
  return out;
}

bool has_onednn() { return at::globalContext().userEnabledMkldnn() && __builtin_cpu_supports("avx512bf16"); }

// In the order of what is likely best.
std::vector<Form> forms_for(const ProductOperands& p) {
  if (p.left.scalar_type() == at::kFloat && Mkl::get().is_there()) return {Form::mkl};
  std::vector<Form> forms;
  if (has_onednn()) forms.push_back(Form::onednn);
  if (p.left.scalar_type() == at::kBFloat16 && p.left.size(1) % 2 == 0 && has_tiles()) forms.push_back(Form::tiles);
  return forms;
}

// TENON_FORM=packed or tiles asks for packs everywhere instead of a trial: the first form, or the last.
std::string wanted_form() {
  static const char* wanted = std::getenv("TENON_FORM");
  return wanted ? wanted : "";
}

// Below that a library's way of packing costs more than it saves.
constexpr int64_t kFewElements = 1 << 14;

// What won, by sizes, type, row, threads.
using Key = std::tuple<int, int, int, at::ScalarType, bool, int>;
struct Choices {
  std::mutex mutex;
  std::map<Key, Form> known;
};
Choices& choices() {
  static Choices* all = new Choices;
  return *all;
}

double seconds_of(const std::function<void()>& f) {
  auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

Form Product::choose(const ProductOperands& p) const {
  auto [m, n, k] = sizes_of(p);
  std::vector<Form> forms = forms_for(p);
  if (forms.empty() || (p.right.numel() < kFewElements && wanted_form().empty())) return Form::plain;
  if (!wanted_form().empty()) return wanted_form() == "tiles" ? forms.back() : forms.front();
  Key key{m, n, k, p.left.scalar_type(), p.row.defined(), at::get_num_threads()};
  Choices& all = choices();
  std::lock_guard lock(all.mutex);
  auto known = all.known.find(key);
  if (known != all.known.end()) return known->second;
  constexpr int kRounds = 4;
  at::Tensor out = room(p);
  struct Candidate {
    Form form;
    std::shared_ptr<const Pack> pack;
    double least = 1e9;
  };
  std::vector<Candidate> candidates = {{Form::plain, nullptr}};
  for (Form form : forms)
    if (auto pack =
            find_pack(Weight::of(p.right), form, at::IntArrayRef(geometry(p.right)).vec(), [&] { return runtime::pack(p.right, form); }))
      candidates.push_back({form, pack});
  if (candidates.size() == 1) return Form::plain;  // nothing is known of other weights
  for (int round = 0; round < kRounds; ++round)
    for (Candidate& c : candidates) c.least = std::min(c.least, seconds_of([&] { run_form(p, c.form, c.pack.get(), out); }));
  auto best = std::min_element(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) { return a.least < b.least; });
  for (const Candidate& c : candidates)
    if (c.pack && c.form != best->form) drop_pack(c.pack);
  all.known.emplace(key, best->form);
  return best->form;
}

at::Tensor Product::run(const ProductOperands& p, at::Tensor out) const {
  if (!gelu_.empty()) {
    if (!has_onednn()) return {};
    auto pack = packs_.get(Weight::of(p.right), Form::onednn, geometry(p.right), [&] { return pack_for_onednn(p.right); });
    form_ = pack ? Form::onednn : Form::plain;
    return pack ? run_onednn(p, *pack, gelu_) : at::Tensor();
  }
  if (!is_chosen_.load(std::memory_order_acquire)) {
    form_ = choose(p);
    is_chosen_.store(true, std::memory_order_release);
  }
  Form form = form_.load(std::memory_order_acquire);
  if (form == Form::plain) return run_form(p, form, nullptr, std::move(out));
  auto pack = packs_.get(Weight::of(p.right), form, geometry(p.right), [&] { return runtime::pack(p.right, form); });
  return run_form(p, form, pack.get(), std::move(out));
}

std::string Product::describe() const { return is_chosen_ ? std::string("weight ") + form_name(form_) : "not run yet"; }

}  // namespace tenon::runtime
