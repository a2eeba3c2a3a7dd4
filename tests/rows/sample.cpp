#include "rows/sample.h"

#include <cmath>
#include <iterator>

namespace tenon::test {
namespace {

constexpr int64_t kSizes[] = {1, 2, 3, 5, 8, 17, 33};

}  // namespace

torch::jit::Stack Sampler::make() {
  bool keeps_last = row_.reduced.kind == ops::Reduced::Kind::before_last;
  is_batch_norm_ = schema_.name().find("batch_norm") != std::string::npos;
  int64_t rank = is_batch_norm_ ? 2 + below(3) : keeps_last ? 2 + below(2) : 1 + below(3);
  bool reduces = row_.reduced.kind != ops::Reduced::Kind::none;
  has_specials_ = !reduces && chance(30);
  sizes_.clear();
  for (int64_t d = 0; d < rank; ++d) sizes_.push_back(kSizes[reduces ? 1 + below(6) : below(7)]);
  int64_t last = 1 + below(keeps_last ? rank - 1 : rank);
  normalized_.assign(sizes_.end() - last, sizes_.end());
  torch::jit::Stack stack;
  for (size_t i = 0; i < schema_.arguments().size(); ++i) stack.push_back(argument(i));
  return stack;
}

// Contiguous, transposed, or every other element of something larger.
at::Tensor Sampler::tensor(std::vector<int64_t> sizes, at::ScalarType dtype) {
  std::vector<int64_t> memory = sizes;
  int64_t layout = below(4);
  if (layout == 1) std::reverse(memory.begin(), memory.end());
  if (layout == 2 && !memory.empty()) memory.back() *= 2;
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(random_());
  at::Tensor t = c10::isFloatingType(dtype) ? at::randn(memory, generator, at::kDouble).mul_(2).to(dtype)
                 : dtype == at::kBool       ? at::randint(0, 2, memory, generator, at::kLong).to(dtype)
                                            : at::randint(dtype == at::kByte ? 0 : -9, 10, memory, generator, at::kLong).to(dtype);
  if (has_specials_ && c10::isFloatingType(dtype)) put_specials(t);
  // Whether a long product overflows on the way depends on its order.
  if (schema_.name() == "aten::prod" && c10::isFloatingType(dtype)) t = t.sign().mul(t.abs().mul(0.05).add(0.9)).to(dtype);
  if (layout == 1)
    return t.permute([&] {
      std::vector<int64_t> order(memory.size());
      for (size_t d = 0; d < order.size(); ++d) order[d] = static_cast<int64_t>(order.size() - 1 - d);
      return order;
    }());
  if (layout == 2 && !memory.empty()) return t.slice(-1, 0, c10::nullopt, 2);
  return t;
}

// What loops treat in ways of their own: in a fifth of the elements.
void Sampler::put_specials(at::Tensor& t) {
  constexpr double kSpecial[] = {NAN, INFINITY, -INFINITY, -0.0, 0.0, 1e30, -1e30, 1e-30};
  at::Tensor flat = t.view(-1);
  for (int64_t i = 0; i < flat.numel(); ++i)
    if (chance(20)) flat[i].fill_(kSpecial[below(std::size(kSpecial))]);
}

std::vector<int64_t> Sampler::broadcast(std::vector<int64_t> sizes) {
  // One number for many elements would be one sample of its error, not many.
  constexpr int64_t kMany = 64;
  std::vector<int64_t> all = sizes;
  if (chance(60)) return sizes;
  if (chance(20)) sizes.clear();
  for (int64_t& size : sizes)
    if (chance(40)) size = 1;
  return c10::multiply_integers(sizes) == 1 && c10::multiply_integers(all) > kMany ? all : sizes;
}

c10::IValue Sampler::number() {
  if (!c10::isFloatingType(dtype_) || chance(40)) return c10::Scalar(1 + below(3));
  if (has_specials_ && chance(30)) return c10::Scalar(chance(50) ? NAN : -INFINITY);
  return c10::Scalar(static_cast<double>(below(4000) - 2000) / 1000);
}

c10::IValue Sampler::from_text(const std::string& text, const c10::Type& type) {
  if (text == "none" && type.kind() == c10::TypeKind::StringType) return text;
  if (text == "none") return {};
  if (type.kind() == c10::TypeKind::ListType) {  // flags
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

c10::IValue Sampler::argument(size_t index) {
  const c10::Argument& parameter = schema_.arguments()[index];
  const std::string& name = parameter.name();
  c10::TypePtr type = parameter.real_type();
  for (const ops::Row::Condition& condition : row_.conditions)
    if (condition.argument == static_cast<int>(index)) return from_text(condition.text, *type);
  bool is_optional = type->kind() == c10::TypeKind::OptionalType;
  if (is_optional) type = type->castRaw<c10::OptionalType>()->getElementType();
  bool reduces = row_.reduced.kind != ops::Reduced::Kind::none;
  switch (type->kind()) {
    case c10::TypeKind::TensorType: {
      if (name == "condition" || name == "mask") return tensor(broadcast(sizes_), at::kBool);
      if (name == "value" && index > 0) return tensor({}, dtype_);
      if (is_batch_norm_ && index > 0 && name != "input") {
        at::Tensor along = tensor({sizes_[1]}, dtype_).to(at::kDouble).abs().add(0.5).to(dtype_);
        return is_optional && (name == "weight" || name == "bias") && chance(30) ? at::Tensor() : along;
      }
      bool is_norm = row_.reduced.kind == ops::Reduced::Kind::last || row_.reduced.kind == ops::Reduced::Kind::before_last;
      if (name == "mean" || name == "rstd") {  // ATen takes them for contiguous
        std::vector<int64_t> rows = sizes_;
        std::fill(rows.end() - static_cast<ptrdiff_t>(normalized_.size()), rows.end(), 1);
        return tensor(rows, dtype_).contiguous();
      }
      if (is_optional && row_.reduced.kind != ops::Reduced::Kind::before_last && chance(30)) return at::Tensor();
      if (is_norm && (name == "weight" || name == "bias")) return tensor(normalized_, dtype_);
      return tensor(index == 0 || reduces ? sizes_ : broadcast(sizes_), dtype_);
    }
    case c10::TypeKind::NumberType:
      return is_optional && chance(30) ? c10::IValue() : number();
    case c10::TypeKind::FloatType:
      return static_cast<double>(1 + below(2000)) / 1000;
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
