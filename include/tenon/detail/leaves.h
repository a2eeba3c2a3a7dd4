// The leaves of arguments and results: tensors, numbers and strings, found through optionals,
// vectors, tuples and structs with a visit function.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <any>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace tenon::detail {

// What a call was given, flattened. Numbers are kept as bits, so that every NaN equals itself.
struct Leaves {
  c10::SmallVector<const at::Tensor*, 8> tensors;
  c10::SmallVector<uint64_t, 8> numbers;
  std::vector<std::string> texts;
};

template <class T>
struct IsVector : std::false_type {};
template <class T, class A>
struct IsVector<std::vector<T, A>> : std::true_type {};
template <class T>
struct IsVector<c10::ArrayRef<T>> : std::true_type {};
template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <class T>
struct IsTuple : std::false_type {};
template <class... T>
struct IsTuple<std::tuple<T...>> : std::true_type {};
template <class A, class B>
struct IsTuple<std::pair<A, B>> : std::true_type {};
template <class T, size_t N>
struct IsTuple<std::array<T, N>> : std::true_type {};

struct AnyMember {
  template <class... T>
  void operator()(T&...) const {}
};
template <class T>
concept HasVisit = requires(T& x) {
  x.visit(AnyMember{});
};

// Walks x; `sink` has tensor(t), number(bits) and text(s).
template <class Sink, class T>
void walk(Sink& sink, T& x) {
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_base_of_v<at::Tensor, U>) {
    sink.tensor(x);
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

struct Collect {
  Leaves& out;
  void tensor(const at::Tensor& t) { out.tensors.push_back(&t); }
  void number(uint64_t bits) { out.numbers.push_back(bits); }
  void text(std::string s) { out.texts.push_back(std::move(s)); }
};

template <class T>
void collect(Leaves& out, const T& x) {
  Collect sink{out};
  walk(sink, x);
}

using TensorPlaces = c10::SmallVector<at::Tensor*, 4>;

struct FindTensors {
  TensorPlaces out;
  void tensor(at::Tensor& t) { out.push_back(&t); }
  void tensor(const at::Tensor&) {}
  void number(uint64_t) {}
  void text(const std::string&) {}
};

template <class R>
TensorPlaces tensors_of(R& result) {
  FindTensors sink;
  walk(sink, result);
  return std::move(sink.out);
}

template <class R>
void put_tensors(R& result, c10::SmallVectorImpl<at::Tensor>& tensors) {
  TensorPlaces places = tensors_of(result);
  for (size_t i = 0; i < places.size(); ++i) *places[i] = std::move(tensors[i]);
}

template <class R>
std::shared_ptr<const std::any> prototype_of(const R& result) {
  R copy = result;
  for (at::Tensor* tensor : tensors_of(copy)) *tensor = at::Tensor();
  return std::make_shared<const std::any>(std::move(copy));
}

}  // namespace tenon::detail
