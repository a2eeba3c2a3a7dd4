// Type traits: which types of arguments and results are flattened.
#pragma once

#include <c10/util/ArrayRef.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tenon::detail {

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

template <class T>
struct IsMap : std::false_type {};
template <class K, class V, class C, class A>
struct IsMap<std::map<K, V, C, A>> : std::true_type {};
template <class K, class V, class H, class E, class A>
struct IsMap<std::unordered_map<K, V, H, E, A>> : std::true_type {};

// A torch::jit::Module, recognised by its members, because including its header is expensive.
template <class M>
concept IsScriptModule = requires(M& m) {
  m._ivalue();
  m.find_method("forward");
  m.named_parameters();
  m.named_buffers();
};

// Pointers to a map's entries, sorted by key: unordered maps with equal contents may iterate in different orders.
template <class M>
auto in_key_order(M& map) {
  c10::SmallVector<decltype(&*map.begin()), 8> entries;
  for (auto& entry : map) entries.push_back(&entry);
  std::sort(entries.begin(), entries.end(), [](auto* a, auto* b) { return a->first < b->first; });
  return entries;
}

struct AnyMember {
  template <class... T>
  void operator()(T&...) const {}
};
template <class T>
concept HasVisit = requires(T& x) {
  x.visit(AnyMember{});
};

}  // namespace tenon::detail
