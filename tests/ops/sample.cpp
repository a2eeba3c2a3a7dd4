#include "ops/sample.h"

#include <cmath>
#include <iterator>

namespace tenon::test {
namespace {

constexpr int64_t kSizes[] = {1, 2, 3, 5, 8, 17, 33};

}  // namespace

torch::jit::Stack Sampler::make() {
  bool keeps_last = entry_.reduced.kind == ops::Reduced::Kind::before_last;
  is_batch_norm_ = schema_.name().find("batch_norm") != std::string::npos;
  int64_t rank = is_batch_norm_ ? 2 + below(3) : keeps_last ? 2 + below(2) : 1 + below(3);
  bool reduces = entry_.reduced.kind != ops::Reduced::Kind::none;
  has_specials_ = !reduces && chance(30);
  sizes_.clear();
  for (int64_t d = 0; d < rank; ++d) sizes_.push_back(kSizes[reduces ? 1 + below(6) : below(7)]);
  int64_t last = 1 + below(keeps_last ? rank - 1 : rank);
  normalized_.assign(sizes_.end() - last, sizes_.end());
  if (schema_.name().find("nll_loss") != std::string::npos) sizes_.resize(2, 5);
  along_ = below(static_cast<int64_t>(sizes_.size()));
  torch::jit::Stack stack;
  for (size_t i = 0; i < schema_.arguments().size(); ++i) stack.push_back(argument(i));
  return stack;
}

at::Tensor Random::tensor(std::vector<int64_t> sizes, at::ScalarType dtype, bool has_specials) {
  std::vector<int64_t> memory = sizes;
  int64_t layout = below(4);
  if (layout == 1) std::reverse(memory.begin(), memory.end());
  if (layout == 2 && !memory.empty()) memory.back() *= 2;
  at::Generator generator = this->generator();
  at::Tensor t = c10::isFloatingType(dtype) ? at::randn(memory, generator, at::kDouble).mul_(2).to(dtype)
                 : dtype == at::kBool       ? at::randint(0, 2, memory, generator, at::kLong).to(dtype)
                                            : at::randint(dtype == at::kByte ? 0 : -9, 10, memory, generator, at::kLong).to(dtype);
  if (has_specials && c10::isFloatingType(dtype)) put_specials(t);
  if (layout == 1)
    return t.permute([&] {
      std::vector<int64_t> order(memory.size());
      for (size_t d = 0; d < order.size(); ++d) order[d] = static_cast<int64_t>(order.size() - 1 - d);
      return order;
    }());
  if (layout == 2 && !memory.empty()) return t.slice(-1, 0, c10::nullopt, 2);
  return t;
}

// Replaces a fifth of the elements by values that kernels treat specially.
void Random::put_specials(at::Tensor& t) {
  constexpr double kSpecial[] = {NAN, INFINITY, -INFINITY, -0.0, 0.0, 1e30, -1e30, 1e-30};
  at::Tensor flat = t.view(-1);
  for (int64_t i = 0; i < flat.numel(); ++i)
    if (chance(20)) flat[i].fill_(kSpecial[below(std::size(kSpecial))]);
}

at::Tensor Sampler::tensor(std::vector<int64_t> sizes, at::ScalarType dtype) {
  at::Tensor t = random_.tensor(std::move(sizes), dtype, has_specials_);
  // Whether a long product overflows depends on its order.
  if (schema_.name() == "aten::prod" && c10::isFloatingType(dtype)) t = t.sign().mul(t.abs().mul(0.05).add(0.9)).to(dtype);
  return t;
}

at::Tensor Sampler::positive(std::vector<int64_t> sizes) {
  return tensor(std::move(sizes), dtype_).to(at::kDouble).abs().add(0.5).to(dtype_);
}

std::vector<int64_t> Sampler::broadcast(std::vector<int64_t> sizes) {
  // One value broadcast to many elements would repeat one rounding error instead of sampling many.
  constexpr int64_t kMaxBroadcastElements = 64;
  std::vector<int64_t> all = sizes;
  if (chance(60)) return sizes;
  if (chance(20)) sizes.clear();
  for (int64_t& size : sizes)
    if (chance(40)) size = 1;
  return c10::multiply_integers(sizes) == 1 && c10::multiply_integers(all) > kMaxBroadcastElements ? all : sizes;
}

c10::IValue Sampler::number() {
  if (!c10::isFloatingType(dtype_) || chance(40)) return c10::Scalar(1 + below(3));
  if (has_specials_ && chance(30)) return c10::Scalar(chance(50) ? NAN : -INFINITY);
  return c10::Scalar(static_cast<double>(below(4000) - 2000) / 1000);
}

c10::IValue Sampler::from_text(const std::string& text, const c10::Type& type) {
  if (text == "none" && type.kind() == c10::TypeKind::StringType) return text;
  if (text == "none") return {};
  if (type.kind() == c10::TypeKind::ListType) {  // A list of flags.
    c10::List<bool> flags;
    for (char c : text) flags.push_back(c == '1');
    return flags;
  }
  if (text == "true" || text == "false") return text == "true";
  if (type.kind() == c10::TypeKind::StringType) return text;
  if (type.kind() == c10::TypeKind::OptionalType && type.str().find("str") != std::string::npos) return text;
  double number = std::stod(text);
  bool whole = number == std::floor(number);
  if (type.kind() == c10::TypeKind::IntType) return static_cast<int64_t>(number);
  return whole ? c10::Scalar(static_cast<int64_t>(number)) : c10::Scalar(number);
}

// Returns arguments of ops that read by an index or depend on the position.
std::optional<c10::IValue> Sampler::positional_argument(const std::string& name) {
  constexpr int64_t kIgnored = 1;
  const std::string& op = schema_.name();
  auto indices = [&](std::vector<int64_t> sizes, int64_t extent) {
    at::ScalarType type = chance(30) && op != "aten::gather" && op.find("nll") == std::string::npos ? at::kInt : at::kLong;
    at::Generator generator = random_.generator();
    return at::randint(0, extent, sizes, generator, at::kLong).to(type);
  };
  if (op == "aten::embedding" && name == "weight") return tensor({sizes_[0], 9}, dtype_);
  if (op == "aten::embedding" && name == "indices") return indices({2, 5}, sizes_[0]);
  if (op.find("nll_loss") != std::string::npos) {
    if (name == "target") return indices({sizes_[0]}, sizes_[1]);
    if (name == "weight") return chance(50) ? at::Tensor() : positive({sizes_[1]});
    if (name == "ignore_index") return chance(50) ? kIgnored : int64_t{-100};
    if (name == "grad_output") return tensor({}, dtype_);
    if (name == "total_weight") return positive({});
    if (name == "self") return tensor(sizes_, dtype_);
  }
  if (name == "dim" && (op == "aten::index_select" || op == "aten::gather")) return along_;
  if (op == "aten::index_select" && name == "index") return indices({1 + below(9)}, sizes_[static_cast<size_t>(along_)]);
  if (op == "aten::gather" && name == "index") {
    std::vector<int64_t> sizes = sizes_;
    for (int64_t& size : sizes) size = 1 + below(size);
    return indices(sizes, sizes_[static_cast<size_t>(along_)]);
  }
  bool is_range = op == "aten::arange";
  if ((is_range || op == "aten::eye") && name == "dtype") return static_cast<int64_t>(dtype_);
  if (is_range && name == "end") return c10::Scalar(10 + below(40));
  if (name == "start" || name == "step") return c10::Scalar(1 + below(5));
  if (name == "n" || name == "m") return 1 + below(9);
  if (name == "diagonal") return below(7) - 3;
  return std::nullopt;
}

c10::IValue Sampler::argument(size_t index) {
  const c10::Argument& parameter = schema_.arguments()[index];
  const std::string& name = parameter.name();
  c10::TypePtr type = parameter.real_type();
  for (const ops::OpEntry::ArgumentCondition& condition : entry_.conditions)
    if (condition.argument == static_cast<int>(index))
      return condition.text == "in order" ? tensor(sizes_, dtype_).contiguous() : from_text(condition.text, *type);
  if (entry_.has_positions || !entry_.strided_arguments.empty())
    if (auto found = positional_argument(name)) return *found;
  bool is_optional = type->kind() == c10::TypeKind::OptionalType;
  if (is_optional) type = type->castRaw<c10::OptionalType>()->getElementType();
  bool reduces = entry_.reduced.kind != ops::Reduced::Kind::none;
  switch (type->kind()) {
    case c10::TypeKind::TensorType: {
      if (name == "condition" || name == "mask") return tensor(broadcast(sizes_), at::kBool);
      if (name == "value" && index > 0) return tensor({}, dtype_);
      if (is_batch_norm_ && index > 0 && name != "input") {
        at::Tensor along = positive({sizes_[1]});
        return is_optional && (name == "weight" || name == "bias") && chance(30) ? at::Tensor() : along;
      }
      bool is_norm = entry_.reduced.kind == ops::Reduced::Kind::last || entry_.reduced.kind == ops::Reduced::Kind::before_last;
      if (name == "mean" || name == "rstd") {  // ATen assumes that they are contiguous.
        std::vector<int64_t> rows = sizes_;
        std::fill(rows.end() - static_cast<ptrdiff_t>(normalized_.size()), rows.end(), 1);
        return tensor(rows, dtype_).contiguous();
      }
      if (is_optional && entry_.reduced.kind != ops::Reduced::Kind::before_last && chance(30)) return at::Tensor();
      if (is_norm && (name == "weight" || name == "bias")) return tensor(normalized_, dtype_);
      return tensor(index == 0 || reduces ? sizes_ : broadcast(sizes_), dtype_);
    }
    case c10::TypeKind::NumberType:
      return is_optional && chance(30) ? c10::IValue() : number();
    case c10::TypeKind::FloatType:  // Eager converts it to the integer type before it divides.
      return static_cast<double>(1 + below(2000)) / (c10::isFloatingType(dtype_) ? 1000 : 1);
    case c10::TypeKind::BoolType:
      return is_optional || name == "non_blocking" || name == "half_to_float"
                 ? c10::IValue(is_optional ? c10::IValue() : c10::IValue(false))
                 : c10::IValue(chance(50));
    case c10::TypeKind::ListType: {
      if (name == "size") return sizes_;
      if (name == "normalized_shape") return normalized_;
      if (name == "output_mask") return c10::List<bool>({true, chance(70), chance(70)});
      if (is_optional && chance(20)) return {};
      std::vector<int64_t> dims;
      for (size_t d = 0; d < sizes_.size(); ++d)
        if (chance(50)) dims.push_back(static_cast<int64_t>(d) - (chance(50) ? static_cast<int64_t>(sizes_.size()) : 0));
      if (dims.empty()) dims.push_back(-1);
      return dims;
    }
    default:
      break;
  }
  if (name == "dim") return below(static_cast<int64_t>(sizes_.size())) - (chance(50) ? static_cast<int64_t>(sizes_.size()) : 0);
  if (name == "input_dtype") return static_cast<int64_t>(dtype_);
  if (is_optional) return {};
  return parameter.default_value().value_or(c10::IValue(int64_t{0}));
}

}  // namespace tenon::test
