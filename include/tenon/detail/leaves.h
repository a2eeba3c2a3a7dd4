// Flattens arguments and results into leaves (tensors, numbers and strings) through optionals, vectors, tuples, maps, IValues and
// structs with a visit function.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <any>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <tenon/detail/leaf_types.h>
#include <tenon/export.h>

namespace c10 {
struct IValue;
namespace ivalue {
struct Object;
}
}  // namespace c10

namespace tenon::detail {

// The flattened arguments of a call. Numbers are kept as bits, so that a NaN equals itself.
struct Leaves {
  c10::SmallVector<const at::Tensor*, 8> tensors;
  c10::SmallVector<uint64_t, 8> numbers;
  std::vector<std::string> texts;
};

// Calls tensor(t), number(bits), text(s), ivalue(v) or object(o) of `sink` for each leaf of x.
template <class Sink, class T>
void walk(Sink& sink, T& x) {
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_base_of_v<at::Tensor, U>) {
    sink.tensor(x);
  } else if constexpr (std::is_same_v<U, c10::IValue>) {
    sink.ivalue(x);
  } else if constexpr (IsScriptModule<U>) {
    sink.object(*x._ivalue());
  } else if constexpr (std::is_arithmetic_v<U> || std::is_enum_v<U>) {
    static_assert(sizeof(U) <= 8, "numbers of more than 8 bytes are not supported");
    uint64_t bits = 0;
    std::memcpy(&bits, &x, sizeof(U));
    sink.number(bits);
  } else if constexpr (std::is_convertible_v<const U&, std::string>) {
    sink.text(std::string(x));
  } else if constexpr (std::is_same_v<U, std::nullopt_t>) {
    sink.number(0);
  } else if constexpr (IsOptional<U>::value) {
    sink.number(x.has_value());
    if (x) walk(sink, *x);
  } else if constexpr (std::is_same_v<U, std::vector<bool>>) {
    sink.number(x.size());
    for (bool item : x) sink.number(item);
  } else if constexpr (IsVector<U>::value) {
    sink.number(x.size());
    for (auto& item : x) walk(sink, item);
  } else if constexpr (IsMap<U>::value) {
    sink.number(x.size());
    for (auto* entry : in_key_order(x)) {
      walk(sink, entry->first);
      walk(sink, entry->second);
    }
  } else if constexpr (IsTuple<U>::value) {
    std::apply([&](auto&... items) { (walk(sink, items), ...); }, x);
  } else if constexpr (HasVisit<U>) {
    const_cast<U&>(x).visit([&](auto&... members) { (walk(sink, members), ...); });
  } else {
    static_assert(HasVisit<U>,
                  "tenon: an argument or result of this type needs a member "
                  "`template <class F> auto visit(F&& f) { return f(its members...); }`");
  }
}

// The attributes of a script object are leaves of an argument, but never of a result.
TENON_API void collect_ivalue(Leaves& out, const c10::IValue& value);
TENON_API void collect_object(Leaves& out, const c10::ivalue::Object& object);
TENON_API void find_tensors(c10::SmallVectorImpl<at::Tensor*>& out, c10::IValue& value);
// An empty tensor that replaces each tensor in the prototype of a result: tuples need their elements' types.
TENON_API at::Tensor empty_stand_in();
// Copies the tuples, lists and dictionaries inside, which copies of an IValue share.
TENON_API void unshare_ivalue(c10::IValue& value);

struct Collect {
  Leaves& out;
  void ivalue(const c10::IValue& v) { collect_ivalue(out, v); }
  void object(const c10::ivalue::Object& o) { collect_object(out, o); }
  void tensor(const at::Tensor& t) { out.tensors.push_back(&t); }
  void number(uint64_t bits) { out.numbers.push_back(bits); }
  void text(std::string s) { out.texts.push_back(std::move(s)); }
};

template <class T>
void collect(Leaves& out, const T& x) {
  Collect sink{out};
  walk(sink, x);
}

using TensorPointers = c10::SmallVector<at::Tensor*, 4>;

struct FindTensors {
  TensorPointers out;
  void ivalue(c10::IValue& v) { find_tensors(out, v); }
  void ivalue(const c10::IValue&) {}
  void object(const c10::ivalue::Object&) {}
  void tensor(at::Tensor& t) { out.push_back(&t); }
  void tensor(const at::Tensor&) {}
  void number(uint64_t) {}
  void text(const std::string&) {}
};

struct Unshare {
  void ivalue(c10::IValue& v) { unshare_ivalue(v); }
  void ivalue(const c10::IValue&) {}
  void object(const c10::ivalue::Object&) {}
  void tensor(const at::Tensor&) {}
  void number(uint64_t) {}
  void text(const std::string&) {}
};

template <class R>
void unshare(R& result) {
  Unshare sink;
  walk(sink, result);
}

template <class R>
TensorPointers tensors_of(R& result) {
  FindTensors sink;
  walk(sink, result);
  return std::move(sink.out);
}

template <class R>
void put_tensors(R& result, c10::SmallVectorImpl<at::Tensor>& tensors) {
  TensorPointers targets = tensors_of(result);
  for (size_t i = 0; i < targets.size(); ++i) *targets[i] = std::move(tensors[i]);
}

template <class R>
std::shared_ptr<const std::any> prototype_of(const R& result) {
  R copy = result;
  unshare(copy);
  for (at::Tensor* tensor : tensors_of(copy)) *tensor = empty_stand_in();
  return std::make_shared<const std::any>(std::move(copy));
}

}  // namespace tenon::detail
