#include "base/halves.h"

#include <bit>
#include <cmath>

namespace tenon {
namespace {

// value / 2^drop, rounded to nearest, ties to even.
uint32_t rounded_shift(uint32_t value, int drop) {
  uint32_t kept = value >> drop, rest = value & ((1u << drop) - 1), half = 1u << (drop - 1);
  return kept + (rest > half || (rest == half && (kept & 1)));
}

}  // namespace

float bf16_to_float(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

uint16_t float_to_bf16(float value) {
  if (std::isnan(value)) return std::signbit(value) ? 0xFFC0 : 0x7FC0;
  // A carry out of the mantissa increments the exponent, up to infinity, which is the correct rounding.
  return static_cast<uint16_t>(rounded_shift(std::bit_cast<uint32_t>(value), 16));
}

float f16_to_float(uint16_t bits) {
  int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  float size = exponent == 31  ? (mantissa ? NAN : INFINITY)
               : exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -24)
                               : std::ldexp(static_cast<float>(1024 + mantissa), exponent - 25);
  return std::copysign(size, bits >> 15 ? -1.0f : 1.0f);
}

uint16_t float_to_f16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value), sign = bits >> 31 << 15;
  if (std::isnan(value)) return static_cast<uint16_t>(sign | 0x7E00);
  if (std::isinf(value)) return static_cast<uint16_t>(sign | 0x7C00);
  int exponent = static_cast<int>(bits >> 23 & 255) - 127;
  uint32_t mantissa = (bits & 0x7FFFFF) | 0x800000;  // Subnormal f32 values round to 0.
  if (exponent < -25) return static_cast<uint16_t>(sign);
  if (exponent < -14) return static_cast<uint16_t>(sign | rounded_shift(mantissa, 13 + (-14 - exponent)));
  if (exponent > 15) return static_cast<uint16_t>(sign | 0x7C00);
  // The mantissa's implicit bit adds one to the exponent.
  uint32_t size = rounded_shift(mantissa, 13) + (static_cast<uint32_t>(exponent + 14) << 10);
  return static_cast<uint16_t>(sign | size);
}

}  // namespace tenon
