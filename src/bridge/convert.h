// Between libtorch's types and the graph language's.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "ir/graph/graph.h"

namespace tenon::bridge {

bool has_dtype(at::ScalarType type);
ir::DType to_dtype(at::ScalarType type);
at::ScalarType from_dtype(ir::DType dtype);

// A 0-d tensor's contents, and the tensor again.
ir::ScalarTensor number_of(const at::Tensor& tensor, bool plain);
at::Tensor make_number(const ir::ScalarTensor& number);

// A constant argument. Generators go into `resources`; nullopt for what has no text form.
std::optional<ir::Attribute> to_attribute(const c10::IValue& value, std::vector<c10::IValue>& resources);
c10::IValue from_attribute(const ir::Attribute& attribute, const c10::Type& type, const std::vector<c10::IValue>& resources);

// The op with this full name; throws InternalError if this libtorch has none.
c10::OperatorHandle find_op(const std::string& name);

// A tensor over memory with exactly this type, contents undefined; and a copy that keeps sizes,
// strides and storage offset.
at::Tensor empty_of(const ir::TensorType& type);
at::Tensor tensor_at(void* memory, const ir::TensorType& type);  // whose memory is somebody else's
at::Tensor tensor_in(c10::Storage storage, const ir::TensorType& type);
at::Tensor copy_keeping_layout(const at::Tensor& tensor);

// Between tensors of one layout, each memory once.
void copy_elements(at::Tensor from, at::Tensor to);

}  // namespace tenon::bridge
