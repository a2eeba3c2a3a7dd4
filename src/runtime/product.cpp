#include "runtime/product.h"

#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>
#include <ATen/Parallel.h>
#include <dlfcn.h>

#include <array>
#include <cstring>
#include <map>
#include <tuple>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/flags.h"
#include "bridge/convert.h"
#include "bridge/parallel.h"
#include "ir/graph/group.h"
#include "runtime/gemv.h"
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
  return {nullptr, call(op, {bridge::borrowed(right).t().contiguous(), int64_t{kRows}}), {}, right.nbytes()};
}

Packed pack(const at::Tensor& right, Form form) {
  return form == Form::mkl ? pack_for_mkl(right) : form == Form::tiles ? pack_tiles(right) : pack_for_onednn(right);
}

std::array<int64_t, 4> geometry(const at::Tensor& right) { return {right.size(0), right.size(1), right.stride(0), right.stride(1)}; }

// In C order, what `beta` = 1 adds to.
void fill_rows(const at::Tensor& row, int64_t rows, at::Tensor& out) {
  const char* from = static_cast<const char*>(row.const_data_ptr());
  char* to = static_cast<char*>(out.mutable_data_ptr());
  for (int64_t i = 0; i < rows; ++i) std::memcpy(to + static_cast<size_t>(i) * row.nbytes(), from, row.nbytes());
}

void run_mkl(const ProductOperands& p, const Pack& pack, at::Tensor& out) {
  auto [m, n, k] = sizes_of(p);
  if (p.row.defined()) fill_rows(p.row, m, out);
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

void run_plain(const ProductOperands& p, const at::Tensor& out) {
  at::Tensor matrix = out;
  int64_t m = p.left.size(0), n = p.right.size(1);
  if (out.dim() != 2)
    matrix = bridge::tensor_in(out.storage(), {bridge::to_dtype(out.scalar_type()), {m, n}, {n, 1}, out.storage_offset()});
  if (p.row.defined()) at::addmm_out(matrix, p.row, p.left, p.right);
  else at::mm_out(matrix, p.left, p.right);
}

bool can_stream(const ProductOperands& p) {
  at::ScalarType type = p.left.scalar_type();
  if (!has_gemv() || p.left.size(0) > ir::kMaxGemvRows || p.left.stride(1) != 1) return false;
  bool turned = is_turned(p.right) && p.right.stride(1) == p.right.size(0);
  bool straight = p.right.stride(1) == 1 && p.right.stride(0) == p.right.size(1);
  return (type == at::kFloat && (turned || straight)) || (type == at::kBFloat16 && turned);
}

constexpr int64_t kColumns = 64;  // that a thread takes at once
int64_t column_blocks(const ProductOperands& p) { return (p.right.size(1) + kColumns - 1) / kColumns; }

template <class T>
void run_columns(const ProductOperands& p, const at::Tensor& out, int64_t begin, int64_t end) {
  auto [m, n, k] = sizes_of(p);
  auto at = [](const at::Tensor& t) { return static_cast<const T*>(t.const_data_ptr()); };
  run_gemv({m, n, k, p.left.stride(0), is_turned(p.right)}, at(p.left), at(p.right), p.row.defined() ? at(p.row) : nullptr,
           static_cast<T*>(out.mutable_data_ptr()), begin * kColumns, std::min<int64_t>(n, end * kColumns));
}

// Blocks of the columns of all products, one product's behind another's.
void run_streamed(c10::ArrayRef<ProductOperands> products, c10::ArrayRef<at::Tensor> outs) {
  constexpr int64_t kEnough = int64_t{1} << 15;  // elements of a weight that are worth a thread
  int64_t blocks = 0;
  for (const ProductOperands& p : products) blocks += column_blocks(p);
  int64_t grain = std::max<int64_t>(1, kEnough / (kColumns * products[0].left.size(1)));
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
  if (!out.defined()) out = room(p);
  if (form == Form::streamed && can_stream(p)) run_streamed(p, at::ArrayRef<at::Tensor>(out));
  else if (pack && form == Form::tiles) run_by_tiles(p, *pack, out);
  else if (pack) run_mkl(p, *pack, out);
  else run_plain(p, out);
  return out;
}

// Without bf16 instructions it computes in f32, as it does for ATen.
bool has_onednn() {
  return at::globalContext().userEnabledMkldnn() && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq");
}

// In the order of what is likely best; a short trial takes MKL's word for f32.
std::vector<Form> packed_forms(at::ScalarType type, int64_t k, bool all) {
  std::vector<Form> forms;
  if (type == at::kFloat && Mkl::get().is_there()) forms.push_back(Form::mkl);
  if (!forms.empty() && !all) return forms;
  if (has_onednn()) forms.push_back(Form::onednn);
  if (type == at::kBFloat16 && k % 2 == 0 && has_tiles()) forms.push_back(Form::tiles);
  return forms;
}

// TENON_FORM=packed or tiles asks for packs everywhere instead of a trial: the first form, or the last.
std::string wanted_form() {
  static const char* wanted = flag_text(Flag::form);
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

}  // namespace

Form Product::choose(const ProductOperands& p) const {
  auto [m, n, k] = sizes_of(p);
  if (can_stream(p) && wanted_form().empty()) return Form::streamed;
  std::vector<Form> forms = packed_forms(p.left.scalar_type(), k, /*all=*/false);
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
  constexpr double kWorth = 0.96;  // a pack is memory beside the weight's own
  candidates[0].least *= kWorth;
  auto best = std::min_element(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) { return a.least < b.least; });
  for (const Candidate& c : candidates)
    if (c.pack && c.form != best->form) drop_pack(c.pack);
  all.known.emplace(key, best->form);
  return best->form;
}

std::vector<Form> Product::forms(at::ScalarType type, int64_t k) const {
  if (!gelu_.empty()) return {Form::onednn};
  std::vector<Form> out = {Form::plain};
  if (form_ == Form::streamed) out.push_back(Form::streamed);
  for (Form form : packed_forms(type, k, /*all=*/true)) out.push_back(form);
  return out;
}

void Product::use(Form form) const {
  form_ = form;
  is_chosen_.store(true, std::memory_order_release);
}

void Product::drop_packs_of_others() const {
  for (size_t i = 0; i < kForms; ++i)
    if (static_cast<Form>(i) != form_) packs_[i].drop();
}

std::shared_ptr<const Pack> Product::pack(const ProductOperands& p, Form form) const {
  return packs_[static_cast<size_t>(form)].get(Weight::of(p.right), form, geometry(p.right), [&] { return runtime::pack(p.right, form); });
}

at::Tensor Product::run(const ProductOperands& p, at::Tensor out) const {
  if (!gelu_.empty()) {
    if (!has_onednn()) return {};
    auto pack = this->pack(p, Form::onednn);
    form_ = pack ? Form::onednn : Form::plain;
    return pack ? run_onednn(p, *pack, gelu_) : at::Tensor();
  }
  if (!is_chosen_.load(std::memory_order_acquire)) use(choose(p));
  Form form = form_.load(std::memory_order_acquire);
  if (form == Form::plain || form == Form::streamed) return run_form(p, form, nullptr, std::move(out));
  return run_form(p, form, pack(p, form).get(), std::move(out));
}

bool Product::can_join(const ProductOperands& p) const {
  return is_chosen_.load(std::memory_order_acquire) && form_ == Form::streamed && can_stream(p);
}

void Product::run_joined(c10::ArrayRef<ProductOperands> operands, c10::ArrayRef<at::Tensor> outs) { run_streamed(operands, outs); }

std::string Product::describe() const {
  if (!gelu_.empty()) return std::string("with GELU, weight ") + form_name(form_);
  return is_chosen_ ? std::string("weight ") + form_name(form_) : "not run yet";
}

}  // namespace tenon::runtime
