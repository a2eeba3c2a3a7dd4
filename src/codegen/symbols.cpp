#include "codegen/symbols.h"

#include <dlfcn.h>

#include <cmath>
#include <cstdint>
#include <unordered_map>

namespace tenon::codegen {
namespace {

double log_gamma(double x) {
  int sign;
  return lgamma_r(x, &sign);  // lgamma would write a global
}

// Lane by lane. f32 goes by way of f64: libm's own f32 functions are off by up to 5 units.
template <double (*f)(double), class T>
void one(T* out, const T* x, const T*, int64_t lanes) {
  for (int64_t i = 0; i < lanes; ++i) out[i] = static_cast<T>(f(x[i]));
}
template <double (*f)(double, double), class T>
void two(T* out, const T* x, const T* y, int64_t lanes) {
  for (int64_t i = 0; i < lanes; ++i) out[i] = static_cast<T>(f(x[i], y[i]));
}

std::unordered_map<std::string, void*> own_functions() {
  std::unordered_map<std::string, void*> out;
#define ONE(name, f)                                                    \
  out["tenon_" #name "_f32"] = reinterpret_cast<void*>(&one<f, float>); \
  out["tenon_" #name "_f64"] = reinterpret_cast<void*>(&one<f, double>);
#define TWO(name, f)                                                    \
  out["tenon_" #name "_f32"] = reinterpret_cast<void*>(&two<f, float>); \
  out["tenon_" #name "_f64"] = reinterpret_cast<void*>(&two<f, double>);
  ONE(exp, ::exp)
  ONE(exp2, ::exp2)
  ONE(expm1, ::expm1)
  ONE(log, ::log)
  ONE(log2, ::log2)
  ONE(log10, ::log10)
  ONE(log1p, ::log1p)
  ONE(sin, ::sin)
  ONE(cos, ::cos)
  ONE(tan, ::tan)
  ONE(asin, ::asin)
  ONE(acos, ::acos)
  ONE(atan, ::atan)
  ONE(sinh, ::sinh)
  ONE(cosh, ::cosh)
  ONE(tanh, ::tanh)
  ONE(asinh, ::asinh)
  ONE(acosh, ::acosh)
  ONE(atanh, ::atanh)
  ONE(erf, ::erf)
  ONE(erfc, ::erfc)
  ONE(lgamma, log_gamma)
  TWO(atan2, ::atan2)
  TWO(pow, ::pow)
  TWO(fmod, ::fmod)
#undef ONE
#undef TWO
  return out;
}

}  // namespace

void* find_function(const std::string& name) {
  static const auto own = own_functions();
  if (auto found = own.find(name); found != own.end()) return found->second;
  if (void* address = dlsym(RTLD_DEFAULT, name.c_str())) return address;
  // Python loads libtorch out of sight of RTLD_DEFAULT.
  static void* torch = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  return torch ? dlsym(torch, name.c_str()) : nullptr;
}

}  // namespace tenon::codegen
