"""Where the polynomials of functors.hpp come from: prints their coefficients, lowest power first.

Both are minimax fits (Lawson's reweighted least squares on a dense grid), the error weighted the
way the result counts it. Needs numpy and mpmath.
"""

import mpmath
import numpy as np

mpmath.mp.dps = 40


def fit(x, target, weight, degree, span):
    """The polynomial p of `degree` with the least max |weight * (p(x) - target)|, x in `span`."""
    low, high = span
    basis = np.polynomial.chebyshev.chebvander((2 * x - low - high) / (high - low), degree)
    share = np.ones_like(x)
    for _ in range(400):
        rows = weight * np.sqrt(share)
        coefficients = np.linalg.lstsq(basis * rows[:, None], target * rows, rcond=None)[0]
        error = np.abs((basis @ coefficients - target) * weight)
        share = np.maximum(share * error / error.max(), 1e-30)
        share /= share.sum()
    to_unit = np.polynomial.Polynomial([-(high + low) / (high - low), 2 / (high - low)])
    powers = np.polynomial.Polynomial(np.polynomial.chebyshev.cheb2poly(coefficients))(to_unit).coef
    return [float(np.float32(c)) for c in powers], error.max()


def gelu():
    """log2(Phi(-a)) = -1 + a * p(a) on [0, 6]; the error of gelu(-a), relative above 1e-3."""
    last = 6.0
    a = last * np.sin(np.linspace(0, 1, 1500) * np.pi / 2)[1:]
    tail = np.array([float(mpmath.ncdf(-x)) for x in a])
    target = np.array([float(mpmath.log(mpmath.ncdf(-mpmath.mpf(float(x))), 2)) for x in a]) + 1
    weight = a * tail / (a * tail + 1e-3) * np.log(2)
    return fit(a, target / a, weight * a, 7, (0.0, last))


def elu():
    """expm1(x) = x * (1 + x * p(x)) on [-0.4, 0]: relative error."""
    first = -0.4
    x = first * (1 + np.cos(np.linspace(0, np.pi, 600))) / 2
    x[-1] = -1e-9
    quotient = np.array(
        [float(mpmath.expm1(mpmath.mpf(float(v))) / mpmath.mpf(float(v))) for v in x]
    )
    return fit(x, (quotient - 1) / x, np.abs(x) / quotient, 3, (first, 0.0))


if __name__ == "__main__":
    for name, (coefficients, error) in {"gelu": gelu(), "elu": elu()}.items():
        print(f"{name}: error {error:.1e}")
        print("\n".join(f"  {c!r}" for c in coefficients))
