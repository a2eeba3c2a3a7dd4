#include "runtime/product.h"

#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>
#include <ATen/Parallel.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <tuple>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/flags.h"
#include "base/process.h"
#include "bridge/convert.h"
#include "bridge/parallel.h"
#include "ir/graph/group.h"
#include "runtime/gemv.h"
#include "runtime/tiles.h"

namespace tenon::runtime {
namespace {

// MKL's functions for packed matrices, which libtorch exports without a header.
struct Mkl {
  enum : int { row_major = 101, no_trans = 111, trans = 112, packed = 151, right = 162 };
  using SizeFunction = size_t (*)(int which, int m, int n, int k);
  using PackFunction = void (*)(int layout, int which, int trans, int m, int n, int k, float alpha, const float* from, int stride,
                                float* to);
  using ComputeFunction = void (*)(int layout, int trans_a, int trans_b, int m, int n, int k, const float* a, int stride_a, const float* b,
                                   int stride_b, float beta, float* c, int stride_c);
  SizeFunction size = reinterpret_cast<SizeFunction>(dlsym(RTLD_DEFAULT, "cblas_sgemm_pack_get_size"));
  PackFunction pack = reinterpret_cast<PackFunction>(dlsym(RTLD_DEFAULT, "cblas_sgemm_pack"));
  ComputeFunction compute = reinterpret_cast<ComputeFunction>(dlsym(RTLD_DEFAULT, "cblas_sgemm_compute"));
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

at::Tensor make_output(const ProductOperands& p) {
  int64_t m = p.left.size(0), n = p.right.size(1);
  return bridge::empty_of({bridge::to_dtype(p.left.scalar_type()), {m, n}, {n, 1}});
}

struct ProductSizes {
  int m, n, k;
};
ProductSizes sizes_of(const ProductOperands& p) {
  return {static_cast<int>(p.left.size(0)), static_cast<int>(p.right.size(1)), static_cast<int>(p.left.size(1))};
}

bool is_transposed(const at::Tensor& right) { return right.stride(0) == 1 && right.size(1) > 1; }

// The number of rows that packs are optimized for; they can be used with any number. A typical prompt, not measured.
constexpr int kPackRows = 128;

Packed pack_for_mkl(const at::Tensor& right) {
  const Mkl& mkl = Mkl::get();
  int k = static_cast<int>(right.size(0)), n = static_cast<int>(right.size(1));
  auto pages = std::make_shared<const Pages>(mkl.size(Mkl::right, kPackRows, n, k));
  bool transposed = is_transposed(right);
  mkl.pack(Mkl::row_major, Mkl::right, transposed ? Mkl::trans : Mkl::no_trans, kPackRows, n, k, 1.0f, right.const_data_ptr<float>(),
           transposed ? k : n, static_cast<float*>(pages->begin()));
  return {pages, {}, {}, pages->resident()};
}

Packed pack_for_onednn(const at::Tensor& right) {
  static const c10::OperatorHandle op = bridge::find_op("mkldnn::_reorder_linear_weight");
  return {nullptr, call(op, {bridge::borrowed(right).t().contiguous(), int64_t{kPackRows}}), {}, right.nbytes()};
}

Packed pack(const at::Tensor& right, Form form) {
  return form == Form::mkl ? pack_for_mkl(right) : form == Form::tiles ? pack_tiles(right) : pack_for_onednn(right);
}

std::array<int64_t, 4> geometry(const at::Tensor& right) { return {right.size(0), right.size(1), right.stride(0), right.stride(1)}; }

// Copies the bias into each row of the result, to which MKL adds the product (`beta` = 1).
void broadcast_bias(const at::Tensor& bias, int64_t rows, at::Tensor& out) {
  const char* from = static_cast<const char*>(bias.const_data_ptr());
  char* to = static_cast<char*>(out.mutable_data_ptr());
  for (int64_t i = 0; i < rows; ++i) std::memcpy(to + static_cast<size_t>(i) * bias.nbytes(), from, bias.nbytes());
}

void run_mkl(const ProductOperands& p, const Pack& pack, at::Tensor& out) {
  auto [m, n, k] = sizes_of(p);
  if (p.bias.defined()) broadcast_bias(p.bias, m, out);
  Mkl::get().compute(Mkl::row_major, Mkl::no_trans, Mkl::packed, m, n, k, p.left.const_data_ptr<float>(),
                     static_cast<int>(p.left.stride(0)), static_cast<const float*>(pack.packed.pages->begin()), k,
                     p.bias.defined() ? 1.0f : 0.0f, out.mutable_data_ptr<float>(), n);
}

at::Tensor run_onednn(const ProductOperands& p, const Pack& pack, const std::string& gelu = "") {
  static const c10::OperatorHandle op = bridge::find_op("mkldnn::_linear_pointwise");
  c10::IValue bias = p.bias.defined() ? c10::IValue(p.bias) : c10::IValue();
  return call(op, {p.left, pack.packed.tensor, bias, gelu.empty() ? "none" : "gelu", c10::List<std::optional<at::Scalar>>(), gelu});
}

void run_by_tiles(const ProductOperands& p, const Pack& pack, at::Tensor& out) {
  auto [m, n, k] = sizes_of(p);
  auto at = [](const at::Tensor& t) { return t.const_data_ptr<at::BFloat16>(); };
  run_tiles({m, n, k, p.left.stride(0), at(p.left), at(pack.packed.tensor), p.bias.defined() ? at(p.bias) : nullptr,
             out.mutable_data_ptr<at::BFloat16>()});
}

void run_plain(const ProductOperands& p, const at::Tensor& out) {
  at::Tensor matrix = out;
  int64_t m = p.left.size(0), n = p.right.size(1);
  if (out.dim() != 2)
    matrix = bridge::tensor_in(out.storage(), {bridge::to_dtype(out.scalar_type()), {m, n}, {n, 1}, out.storage_offset()});
  if (p.bias.defined()) at::addmm_out(matrix, p.bias, p.left, p.right);
  else at::mm_out(matrix, p.left, p.right);
}

bool can_stream(const ProductOperands& p) {
  at::ScalarType type = p.left.scalar_type();
  if (!has_gemv() || p.left.size(0) > ir::kMaxGemvRows || p.left.stride(1) != 1) return false;
  bool transposed = is_transposed(p.right) && p.right.stride(1) == p.right.size(0);
  bool row_major = p.right.stride(1) == 1 && p.right.stride(0) == p.right.size(1);
  return (type == at::kFloat && (transposed || row_major)) || (type == at::kBFloat16 && transposed);
}

constexpr int64_t kColumnsPerBlock = 64;  // Unit of work of a thread.
int64_t column_blocks(const ProductOperands& p) { return (p.right.size(1) + kColumnsPerBlock - 1) / kColumnsPerBlock; }

template <class T>
void run_columns(const ProductOperands& p, const at::Tensor& out, int64_t begin, int64_t end) {
  auto [m, n, k] = sizes_of(p);
  auto at = [](const at::Tensor& t) { return static_cast<const T*>(t.const_data_ptr()); };
  run_gemv({m, n, k, p.left.stride(0), is_transposed(p.right)}, at(p.left), at(p.right), p.bias.defined() ? at(p.bias) : nullptr,
           static_cast<T*>(out.mutable_data_ptr()), begin * kColumnsPerBlock, std::min<int64_t>(n, end * kColumnsPerBlock));
}

// Runs all products in one parallel loop over blocks of their columns.
void run_streamed(c10::ArrayRef<ProductOperands> products, c10::ArrayRef<at::Tensor> outs) {
  constexpr int64_t kMinElementsPerThread = int64_t{1} << 15;  // Elements of the weights.
  int64_t blocks = 0;
  for (const ProductOperands& p : products) blocks += column_blocks(p);
  int64_t grain = std::max<int64_t>(1, kMinElementsPerThread / (kColumnsPerBlock * products[0].left.size(1)));
  bridge::parallel_for(0, blocks, grain, [&](int64_t begin, int64_t end) {
    int64_t first = 0;
    for (size_t i = 0; i < products.size(); ++i) {
      const ProductOperands& p = products[i];
      int64_t count = column_blocks(p), from = std::max<int64_t>(begin - first, 0), to = std::min(end - first, count);
      if (from < to)
        p.left.scalar_type() == at::kFloat ? run_columns<float>(p, outs[i], from, to) : run_columns<uint16_t>(p, outs[i], from, to);
      first += count;
    }
  });
}

at::Tensor run_form(const ProductOperands& p, Form form, const Pack* pack, at::Tensor out) {
  if (pack && form == Form::onednn) return run_onednn(p, *pack);
  if (!out.defined()) out = make_output(p);
  if (form == Form::streamed && can_stream(p)) run_streamed(p, at::ArrayRef<at::Tensor>(out));
  else if (pack && form == Form::tiles) run_by_tiles(p, *pack, out);
  else if (pack) run_mkl(p, *pack, out);
  else run_plain(p, out);
  return out;
}

// oneDNN also serves bf16 on CPUs without bf16 instructions, where it computes in f32, as it does for ATen.
bool has_onednn() {
  return at::globalContext().userEnabledMkldnn() && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq");
}

// The packed forms, in the order of expected speed. Unless `all` is set, MKL is the only one for f32, so that the trial is short.
std::vector<Form> packed_forms(at::ScalarType type, int64_t k, bool all) {
  std::vector<Form> forms;
  if (type == at::kFloat && Mkl::get().is_there()) forms.push_back(Form::mkl);
  if (!forms.empty() && !all) return forms;
  if (has_onednn()) forms.push_back(Form::onednn);
  if (type == at::kBFloat16 && k % 2 == 0 && has_tiles()) forms.push_back(Form::tiles);
  return forms;
}

// TENON_FORM=packed or tiles selects a packed form everywhere, without a trial: the first one, or the last one.
std::string wanted_form() {
  static const char* wanted = flag_text(Flag::form);
  return wanted ? wanted : "";
}

// Smaller weights (64 KiB of f32) are not packed: the overhead of a library's packed call is larger than the gain. Not measured.
constexpr int64_t kMinElementsToPack = 1 << 14;

// The fastest form by class of row numbers, columns, inner size, type, presence of a bias, and number of threads.
using ChoiceKey = std::tuple<size_t, int, int, at::ScalarType, bool, int>;
struct FormChoices {
  std::mutex mutex;
  std::map<ChoiceKey, Form> known;
};
FormChoices& choices() {
  static FormChoices* all = new FormChoices;
  return *all;
}
// Created when the library is loaded, because a fork in the middle of its creation would leave it locked in the child.
[[maybe_unused]] const FormChoices& g_choices = choices();

}  // namespace

Form ProductStep::choose(const ProductOperands& p) const {
  auto [m, n, k] = sizes_of(p);
  if (can_stream(p) && wanted_form().empty()) return Form::streamed;
  std::vector<Form> forms = packed_forms(p.left.scalar_type(), k, /*all=*/false);
  if (forms.empty() || (p.right.numel() < kMinElementsToPack && wanted_form().empty())) return Form::plain;
  if (!wanted_form().empty()) return wanted_form() == "tiles" ? forms.back() : forms.front();
  ChoiceKey key{class_of(m), n, k, p.left.scalar_type(), p.bias.defined(), at::get_num_threads()};
  FormChoices& all = choices();
  ForkSafeLock lock(all.mutex);
  auto known = all.known.find(key);
  if (known != all.known.end()) return known->second;
  constexpr int kTrialRuns = 4, kLongTrialRuns = 2;  // The fastest of these counts.
  constexpr double kLongTrial = 0.02;                // Seconds after which the trial counts as long.
  at::Tensor out = make_output(p);
  struct FormTrial {
    Form form;
    std::shared_ptr<const Pack> pack;
    double seconds = 1e9;
  };
  std::vector<FormTrial> trials = {{Form::plain, nullptr}};
  for (Form form : forms)
    if (auto pack =
            find_pack(Weight::of(p.right), form, at::IntArrayRef(geometry(p.right)).vec(), [&] { return runtime::pack(p.right, form); }))
      trials.push_back({form, pack});
  if (trials.size() == 1) return Form::plain;  // This weight cannot be packed, but others of the same sizes may be: nothing is stored.
  double spent = 0;
  for (int round = 0; round < (spent < kLongTrial ? kTrialRuns : kLongTrialRuns); ++round)
    for (FormTrial& c : trials) {
      double seconds = seconds_of([&] { run_form(p, c.form, c.pack.get(), out); });
      c.seconds = std::min(c.seconds, seconds);
      spent += seconds;
    }
  constexpr double kPlainTimeFactor = 0.96;  // A pack needs additional memory, so it must be at least 4 % faster.
  trials[0].seconds *= kPlainTimeFactor;
  auto best = std::min_element(trials.begin(), trials.end(), [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
  for (const FormTrial& c : trials)
    if (c.pack && c.form != best->form && !is_used(c.form)) drop_pack(c.pack);
  all.known.emplace(key, best->form);
  return best->form;
}

std::vector<Form> ProductStep::forms(at::ScalarType type, int64_t rows, int64_t k) const {
  if (!gelu_.empty()) return {Form::onednn};
  std::vector<Form> out = {Form::plain};
  if (form(rows) == Form::streamed) out.push_back(Form::streamed);
  for (Form form : packed_forms(type, k, /*all=*/true)) out.push_back(form);
  return out;
}

bool ProductStep::is_used(Form form) const {
  return std::any_of(choices_.begin(), choices_.end(), [&](const Choice& choice) { return choice == static_cast<uint8_t>(form); });
}

void ProductStep::drop_unused_packs() const {
  for (size_t i = 0; i < kForms; ++i)
    if (!is_used(static_cast<Form>(i))) packs_[i].drop();
}

std::shared_ptr<const Pack> ProductStep::pack(const ProductOperands& p, Form form) const {
  return packs_[static_cast<size_t>(form)].get(Weight::of(p.right), form, geometry(p.right), [&] { return runtime::pack(p.right, form); });
}

at::Tensor ProductStep::run(const ProductOperands& p, at::Tensor out) const {
  if (!gelu_.empty()) {
    if (!has_onednn()) return {};
    auto pack = this->pack(p, Form::onednn);
    use(p.left.size(0), pack ? Form::onednn : Form::plain);
    return pack ? run_onednn(p, *pack, gelu_) : at::Tensor();
  }
  Choice& chosen = choice(p.left.size(0));
  if (chosen.load(std::memory_order_acquire) == kNoChoice) chosen.store(static_cast<uint8_t>(choose(p)), std::memory_order_release);
  auto form = static_cast<Form>(chosen.load(std::memory_order_acquire));
  if (form == Form::plain || form == Form::streamed) return run_form(p, form, nullptr, std::move(out));
  return run_form(p, form, pack(p, form).get(), std::move(out));
}

bool ProductStep::can_join(const ProductOperands& p) const { return form(p.left.size(0)) == Form::streamed && can_stream(p); }

void ProductStep::run_joined(c10::ArrayRef<ProductOperands> operands, c10::ArrayRef<at::Tensor> outs) { run_streamed(operands, outs); }

std::string ProductStep::describe(int64_t rows) const {
  if (!gelu_.empty()) return std::string("with GELU, weight ") + form_name(form(rows));
  return choice(rows) == kNoChoice ? "not run yet" : std::string("weight ") + form_name(form(rows));
}

}  // namespace tenon::runtime
