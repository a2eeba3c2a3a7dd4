// Conversions between float and the bits of bf16 and f16. Rounding is to nearest, ties to even.
#pragma once

#include <cstdint>

namespace tenon {

float bf16_to_float(uint16_t bits);
uint16_t float_to_bf16(float value);
float f16_to_float(uint16_t bits);
uint16_t float_to_f16(float value);

}  // namespace tenon
