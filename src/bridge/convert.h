// Conversions between libtorch's types and those of the graph language.
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

// Convert between a 0-d tensor and its contents. `symbols` are the values of the symbols of a graph.
ir::ScalarTensor to_scalar_tensor(const at::Tensor& tensor, bool plain);
at::Tensor from_scalar_tensor(const ir::ScalarTensor& number, const ir::SymbolValues& symbols = {});

// Converts a constant argument. Generators are added to `resources`. Returns nullopt for values without a text form.
std::optional<ir::Attribute> to_attribute(const c10::IValue& value, std::vector<c10::IValue>& resources);
c10::IValue from_attribute(const ir::Attribute& attribute, const c10::Type& type, const std::vector<c10::IValue>& resources,
                           const ir::SymbolValues& symbols = {});

// The op with this full name. Throws InternalError if this libtorch has no such op.
c10::OperatorHandle find_op(const std::string& name);

// Makes an uninitialized tensor of exactly this type.
at::Tensor empty_of(const ir::FixedType& type);
// Makes a tensor over memory that the caller owns.
at::Tensor tensor_at(void* memory, const ir::FixedType& type);
// Makes a tensor over a storage.
at::Tensor tensor_in(c10::Storage storage, const ir::FixedType& type);
// Copies a tensor with its sizes, strides and storage offset.
at::Tensor copy_keeping_layout(const at::Tensor& tensor);

// Copies between tensors of the same layout. Elements of expanded dimensions are copied once.
void copy_elements(at::Tensor from, at::Tensor to);

}  // namespace tenon::bridge
