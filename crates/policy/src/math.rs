//! The few functions of real numbers that policies use. `core` has none of them, and results must
//! not depend on the platform's mathematical library.

/// 2^x, to about 1e-15 relative.
pub(crate) fn exp2(x: f64) -> f64 {
    if x < -1070.0 {
        return 0.0;
    }
    // x = whole + fraction with |fraction| <= 1/2; e^(fraction ln 2) by its series.
    let whole = if x < 0.0 { (x - 0.5) as i64 } else { (x + 0.5) as i64 };
    let y = (x - whole as f64) * core::f64::consts::LN_2;
    let mut sum = 1.0;
    let mut term = 1.0;
    for n in 1..20 {
        term *= y / f64::from(n);
        sum += term;
    }
    scale(sum, whole)
}

/// e^x.
pub(crate) fn exp(x: f64) -> f64 {
    exp2(x * core::f64::consts::LOG2_E)
}

/// log2 of a positive normal number, to about 1e-15.
pub(crate) fn log2(x: f64) -> f64 {
    // x = mantissa 2^exponent with the mantissa in [sqrt(1/2), sqrt(2)); ln by the series of atanh.
    let bits = x.to_bits();
    let mut exponent = ((bits >> 52) & 0x7ff) as i64 - 1023;
    let mut mantissa = f64::from_bits(bits & !(0x7ff << 52) | 1023 << 52);
    if mantissa > core::f64::consts::SQRT_2 {
        mantissa /= 2.0;
        exponent += 1;
    }
    let z = (mantissa - 1.0) / (mantissa + 1.0);
    let (mut sum, mut power) = (0.0, z);
    for n in 0..14 {
        sum += power / f64::from(2 * n + 1);
        power *= z * z;
    }
    exponent as f64 + 2.0 * sum * core::f64::consts::LOG2_E
}

/// x^y for positive x.
pub(crate) fn pow(x: f64, y: f64) -> f64 {
    exp2(y * log2(x))
}

/// x 2^exponent.
fn scale(x: f64, exponent: i64) -> f64 {
    let exponent = exponent.clamp(-1074, 1023);
    if exponent < -1022 {
        return x * f64::from_bits(1 << 52) * scale(1.0, exponent + 1022);
    }
    x * f64::from_bits(((exponent + 1023) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_standard_library() {
        for step in -4000..4000 {
            let x = f64::from(step) / 80.0;
            assert!((exp2(x) / x.exp2() - 1.0).abs() < 1e-14, "2^{x}");
            assert!((exp(x) / x.exp() - 1.0).abs() < 1e-13, "e^{x}");
            let positive = x.exp2();
            assert!((log2(positive) - positive.log2()).abs() < 1e-13, "log2 {positive}");
            assert!((pow(1.0 + x.abs(), 0.7) / (1.0 + x.abs()).powf(0.7) - 1.0).abs() < 1e-13, "{x}");
        }
        assert_eq!(exp2(-2000.0), 0.0);
        assert_eq!((exp2(0.0), log2(1.0), exp2(10.0)), (1.0, 0.0, 1024.0));
    }
}
