// Math functions of f32 that are computed in f32.
#pragma once

#include "codegen/builder.h"

namespace tenon::codegen {

Value* exp_f32(Builder& b, Value* x);
Value* exp2_f32(Builder& b, Value* x);
Value* log_f32(Builder& b, Value* x);
Value* tanh_f32(Builder& b, Value* x);
Value* erf_f32(Builder& b, Value* x);

}  // namespace tenon::codegen
