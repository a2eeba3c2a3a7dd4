// Sixteen-bit floating-point numbers as bits. Rounding is to nearest, halves to even.
#pragma once

#include <cstdint>

namespace tenon {

float bf16_to_float(uint16_t bits);
uint16_t float_to_bf16(float number);
float f16_to_float(uint16_t bits);
uint16_t float_to_f16(float number);

}  // namespace tenon
