#include "codegen/symbols.h"

#include <dlfcn.h>

#include <cmath>
#include <cstdint>
#include <unordered_map>

namespace tenon::codegen {
namespace {

// The function lgamma would write the global signgam.
double log_gamma(double x) {
  int sign;
  return lgamma_r(x, &sign);
}
long double long_log_gamma(long double x) {
  int sign;
  return lgammal_r(x, &sign);
}

// Applies a function lane by lane in the type of `f`. f32 is computed in f64, since libm's f32 functions
// have errors of up to 5 ulp.
template <auto f, class T>
struct Lanes;
template <class W, W (*f)(W), class T>
struct Lanes<f, T> {
  static void run(T* out, const T* x, const T*, int64_t lanes) {
    for (int64_t i = 0; i < lanes; ++i) out[i] = static_cast<T>(f(x[i]));
  }
};
template <class W, W (*f)(W, W), class T>
struct Lanes<f, T> {
  static void run(T* out, const T* x, const T* y, int64_t lanes) {
    for (int64_t i = 0; i < lanes; ++i) out[i] = static_cast<T>(f(x[i], y[i]));
  }
};

template <auto for_f32, auto for_f64 = for_f32>
void add(std::unordered_map<std::string, void*>& out, const std::string& name) {
  out["tenon_" + name + "_f32"] = reinterpret_cast<void*>(&Lanes<for_f32, float>::run);
  out["tenon_" + name + "_f64"] = reinterpret_cast<void*>(&Lanes<for_f64, double>::run);
}

// A second function is given where libm's f64 function has an error of 1.5 ulp or more.
std::unordered_map<std::string, void*> own_functions() {
  std::unordered_map<std::string, void*> out;
  add<::exp>(out, "exp");
  add<::exp2>(out, "exp2");
  add<::expm1>(out, "expm1");
  add<::log>(out, "log");
  add<::log2>(out, "log2");
  add<::log10, ::log10l>(out, "log10");
  add<::log1p>(out, "log1p");
  add<::sin>(out, "sin");
  add<::cos>(out, "cos");
  add<::tan>(out, "tan");
  add<::asin>(out, "asin");
  add<::acos>(out, "acos");
  add<::atan>(out, "atan");
  add<::sinh, ::sinhl>(out, "sinh");
  add<::cosh>(out, "cosh");
  add<::tanh, ::tanhl>(out, "tanh");
  add<::asinh, ::asinhl>(out, "asinh");
  add<::acosh, ::acoshl>(out, "acosh");
  add<::atanh, ::atanhl>(out, "atanh");
  add<::erf>(out, "erf");
  add<::erfc, ::erfcl>(out, "erfc");
  add<log_gamma, long_log_gamma>(out, "lgamma");
  add<::atan2>(out, "atan2");
  add<::pow>(out, "pow");
  add<::fmod>(out, "fmod");
  return out;
}

}  // namespace

void* find_function(const std::string& name) {
  static const auto own = own_functions();
  if (auto found = own.find(name); found != own.end()) return found->second;
  if (void* address = dlsym(RTLD_DEFAULT, name.c_str())) return address;
  // Python loads libtorch with RTLD_LOCAL, so RTLD_DEFAULT does not find it. It stays loaded without this handle.
  void* torch = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  if (!torch) return nullptr;
  void* address = dlsym(torch, name.c_str());
  dlclose(torch);
  return address;
}

}  // namespace tenon::codegen
