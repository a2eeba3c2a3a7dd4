#!/usr/bin/env python3
"""Prints the minimax polynomials of src/codegen/math_*.cpp, coefficients in ascending order of powers.

Each line names the fitted function and its interval, and the largest error of the fit relative to the
function that it approximates, as a power of two. Coefficients of `f32` fits are rounded to f32 one at a
time, and the others are fitted again each time, so that rounding adds almost no error."""
import mpmath as mp
import numpy as np

mp.mp.dps = 50


def best(f, weight, a, b, degree, fixed):
    """Fits the powers len(fixed) to degree with Lawson's iteration: least squares whose weights grow where the error is large."""
    count = 800
    x = np.array([float((a + b) / 2 + (b - a) / 2 * mp.cos(mp.pi * (i + mp.mpf(1) / 2) / count)) for i in range(count)])
    first = len(fixed)
    rest = np.array([float(f(mp.mpf(v)) - sum(c * mp.mpf(v) ** p for p, c in enumerate(fixed))) for v in x])
    scale = np.array([float(weight(mp.mpf(v))) for v in x])
    centre, radius = float(a + b) / 2, float(b - a) / 2
    basis = np.polynomial.chebyshev.chebvander((x - centre) / radius, degree - first) * (x**first)[:, None]
    grown = np.ones(count)
    for _ in range(200):
        w = np.sqrt(grown) * np.abs(scale)
        c = np.linalg.lstsq(basis * w[:, None], rest * w, rcond=None)[0]
        error = np.abs(scale * (basis @ c - rest))
        grown *= error / error.max() + 1e-9
        grown /= grown.mean()
    plain = np.polynomial.chebyshev.Chebyshev(c, domain=[centre - radius, centre + radius]).convert(kind=np.polynomial.Polynomial)
    coefficients = np.zeros(degree + 1 - first)
    coefficients[: len(plain.coef)] = plain.coef
    return list(coefficients), error.max()


def fit(name, f, weight, a, b, degree, f32):
    a, b = mp.mpf(a), mp.mpf(b)
    fixed = []
    for power in range(degree + 1 if f32 else 1):
        coefficients, _ = best(f, weight, a, b, degree, fixed)
        fixed = fixed + [float(np.float32(coefficients[0]))] if f32 else coefficients
    grid = [a + (b - a) * i / 2000 for i in range(2001)]
    error = max(abs(weight(x) * (sum(c * x**p for p, c in enumerate(fixed)) - f(x))) for x in grid)
    print(f"{name}  error 2^{float(mp.log(error, 2)):.1f}")
    print("    {" + ", ".join(repr(float(c)) for c in fixed) + "}")


def near_zero(f, at_zero):
    return lambda x: f(x) if abs(x) > mp.mpf(10) ** -20 else mp.mpf(at_zero)


def odd(f, first):
    """Returns (f(x)/x - 1)/x² as a function of x², and its weight."""
    third = near_zero(lambda s: (f(mp.sqrt(s)) / mp.sqrt(s) - 1) / s, first)
    return third, lambda s: s * mp.sqrt(s) / f(mp.sqrt(s)) if s > mp.mpf(10) ** -20 else s


half = mp.log(2) / 2 * mp.mpf("1.002")
exp_tail = near_zero(lambda r: (mp.exp(r) - 1 - r) / r**2, 0.5)
fit("exp, f32: (e^r - 1 - r)/r²", exp_tail, lambda r: r * r / mp.exp(r), -half, half, 4, True)
fit("exp, f64: the same", exp_tail, lambda r: r * r / mp.exp(r), -half, half, 6, False)
fit("exp2, f32: (2^r - 1)/r", near_zero(lambda r: (2**r - 1) / r, mp.log(2)), lambda r: r / 2**r if r else mp.mpf(10) ** -9, -0.501, 0.501, 6, True)
fit("log, f32: (log(1+f) - f + f²/2)/f³", near_zero(lambda f: (mp.log(1 + f) - f + f * f / 2) / f**3 if abs(f) > 1e-8 else mp.mpf(1) / 3 - f / 4, mp.mpf(1) / 3),
    lambda f: f**3 / mp.log(1 + f) if abs(f) > 1e-20 else f * f, mp.sqrt(0.5) - 1, mp.sqrt(2) - 1, 8, True)
fit("log, f64: (log((1+s)/(1-s))/(2s) - 1)/s² in s²", near_zero(lambda z: (mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, mp.mpf(1) / 3), lambda z: z, 0, 0.02945, 4, False)
f, w = odd(mp.tanh, -mp.mpf(1) / 3)
fit("tanh, f32: (tanh(x)/x - 1)/x² in x², to 0.6", f, w, 0, 0.36, 4, True)
fit("erf, f32: erf(x)/x - 1 in x², to 1", near_zero(lambda s: mp.erf(mp.sqrt(s)) / mp.sqrt(s) - 1, 2 / mp.sqrt(mp.pi) - 1),
    lambda s: mp.sqrt(s) / mp.erf(mp.sqrt(s)) if s > mp.mpf(10) ** -20 else mp.sqrt(mp.pi) / 2, 0, 1, 6, True)
fit("erf, f32: -log(erfc(x))/x - 1, from 1 to 3.95", lambda x: -mp.log(mp.erfc(x)) / x - 1, lambda x: mp.erfc(x) * x / mp.erf(x), 0.98, 3.95, 7, True)
quarter = mp.pi / 4 * mp.mpf("1.001")
f, w = odd(mp.sin, -mp.mpf(1) / 6)
fit("sin, f64: (sin(r)/r - 1)/r² in r²", f, w, 0, quarter**2, 3, False)
fit("cos, f64: (cos(r) - 1 + r²/2)/r⁴ in r²", lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2 if z > 1e-10 else mp.mpf(1) / 24, lambda z: z * z / mp.cos(mp.sqrt(z)), 0, quarter**2, 3, False)
f, w = odd(mp.asin, mp.mpf(1) / 6)
fit("asin, f64: (asin(x)/x - 1)/x² in x², to 0.5", f, w, 0, 0.2501, 7, False)
f, w = odd(mp.atan, -mp.mpf(1) / 3)
fit("atan, f64: (atan(x)/x - 1)/x² in x², to tan(π/8)", f, w, 0, 0.1717, 6, False)
