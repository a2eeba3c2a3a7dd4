// The leaves of an IValue: the contents of its tuples, lists and dictionaries, in order. A code for the kind precedes each element,
// so that values of different structure never compare equal.
#include <ATen/core/ivalue.h>
#include <ATen/core/ivalue_inl.h>

#include <bit>
#include <unordered_set>

#include "tenon/detail/leaves.h"

namespace tenon::detail {
namespace {

enum class LeafKind : uint64_t {
  none,
  tensor,
  integer,
  real,
  complex,
  boolean,
  text,
  device,
  tuple,
  list,
  dictionary,
  object,
  known_object,
  other
};

class Collector {
 public:
  explicit Collector(Leaves& out) : out_(out) {}

  void value(const c10::IValue& v) {
    if (v.isTensor()) {
      kind(LeafKind::tensor);
      out_.tensors.push_back(&v.toTensor());
    } else if (v.isNone()) {
      kind(LeafKind::none);
    } else if (v.isInt()) {
      kind(LeafKind::integer, static_cast<uint64_t>(v.toInt()));
    } else if (v.isDouble()) {
      kind(LeafKind::real, std::bit_cast<uint64_t>(v.toDouble()));
    } else if (v.isComplexDouble()) {
      kind(LeafKind::complex, std::bit_cast<uint64_t>(v.toComplexDouble().real()));
      out_.numbers.push_back(std::bit_cast<uint64_t>(v.toComplexDouble().imag()));
    } else if (v.isBool()) {
      kind(LeafKind::boolean, v.toBool());
    } else if (v.isString()) {
      kind(LeafKind::text);
      out_.texts.push_back(v.toStringRef());
    } else if (v.isDevice()) {
      kind(LeafKind::device, (static_cast<uint64_t>(v.toDevice().type()) << 8) + static_cast<uint8_t>(v.toDevice().index()));
    } else {
      container(v);
    }
  }

  void object(const c10::ivalue::Object& o) {
    if (!seen_objects_.insert(&o).second) return kind(LeafKind::known_object);
    kind(LeafKind::object, o.slots().size());
    for (const c10::IValue& slot : o.slots()) value(slot);
  }

 private:
  void kind(LeafKind kind) { out_.numbers.push_back(static_cast<uint64_t>(kind)); }
  void kind(LeafKind which, uint64_t bits) {
    kind(which);
    out_.numbers.push_back(bits);
  }

  void container(const c10::IValue& v) {
    if (v.isTuple()) {
      const auto& elements = v.toTupleRef().elements();
      kind(LeafKind::tuple, elements.size());
      for (const c10::IValue& element : elements) value(element);
    } else if (v.isList()) {
      kind(LeafKind::list, v.toListRef().size());
      for (const c10::IValue& element : v.toListRef()) value(element);
    } else if (v.isGenericDict()) {
      auto dictionary = v.toGenericDict();
      kind(LeafKind::dictionary, dictionary.size());
      for (const auto& entry : dictionary) {
        value(entry.key());
        value(entry.value());
      }
    } else if (v.isObject()) {
      object(v.toObjectRef());
    } else {  // Generators, futures and capsules are compared by identity.
      kind(LeafKind::other, v.isPtrType() ? reinterpret_cast<uintptr_t>(v.internalToPointer()) : 0);
    }
  }

  Leaves& out_;
  std::unordered_set<const void*> seen_objects_;  // Objects may refer to themselves.
};

}  // namespace

void collect_ivalue(Leaves& out, const c10::IValue& value) { Collector(out).value(value); }
void collect_object(Leaves& out, const c10::ivalue::Object& object) { Collector(out).object(object); }

at::Tensor empty_stand_in() {
  static const at::Tensor empty = at::detail::make_tensor<c10::TensorImpl>(c10::DispatchKeySet(c10::DispatchKey::CPU),
                                                                           caffe2::TypeMeta::Make<float>(), c10::Device(c10::kCPU));
  return empty;
}

void find_tensors(c10::SmallVectorImpl<at::Tensor*>& out, c10::IValue& value) {
  // All copies of a container share its elements, so unshare_ivalue() must be called before a change that other holders must not see.
  auto inside = [&](const c10::IValue& element) { find_tensors(out, const_cast<c10::IValue&>(element)); };
  if (value.isTensor()) {
    out.push_back(&value.toTensor());
  } else if (value.isTuple()) {
    for (const c10::IValue& element : value.toTupleRef().elements()) inside(element);
  } else if (value.isList()) {
    for (const c10::IValue& element : value.toListRef()) inside(element);
  } else if (value.isGenericDict()) {
    auto dictionary = value.toGenericDict();
    for (const auto& entry : dictionary) inside(entry.value());
  }
}

void unshare_ivalue(c10::IValue& value) {
  auto unshared = [](c10::IValue element) {
    unshare_ivalue(element);
    return element;
  };
  if (value.isTuple()) {
    const c10::ivalue::Tuple& tuple = value.toTupleRef();
    std::vector<c10::IValue> elements;
    for (const c10::IValue& element : tuple.elements()) elements.push_back(unshared(element));
    auto type = tuple.type<c10::TupleType>();
    value = type->schema() ? c10::ivalue::Tuple::createNamed(std::move(elements), type) : c10::ivalue::Tuple::create(std::move(elements));
  } else if (value.isList()) {
    auto list = value.toList().copy();
    for (size_t i = 0; i < list.size(); ++i) list.set(i, unshared(list.get(i)));
    value = list;
  } else if (value.isGenericDict()) {
    auto dictionary = value.toGenericDict().copy();
    for (const auto& entry : dictionary) entry.setValue(unshared(entry.value()));
    value = dictionary;
  }
}

}  // namespace tenon::detail
