//! Axes: the position of a value, and the values written beside an axis.

/// A scale from values to places.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Axis {
    logarithmic: bool,
    low: f64,
    high: f64,
    /// The places of `low` and `high`.
    from: f64,
    to: f64,
}

impl Axis {
    /// From 0 to `high`.
    pub(crate) fn linear(high: f64, from: f64, to: f64) -> Self {
        let high = if high > 0.0 { high } else { 1.0 };
        Self { logarithmic: false, low: 0.0, high, from, to }
    }

    /// From the 1, 2 or 5 times a power of ten below `low` to that above `high`. Both are at
    /// least 1.
    pub(crate) fn logarithmic(low: f64, high: f64, from: f64, to: f64) -> Self {
        let (low, high) = (low.max(1.0), high.max(1.0));
        let low = steps(low).rfind(|step| *step <= low).unwrap_or(1.0);
        let high = steps(high).find(|step| *step >= high).unwrap_or(high).max(2.0 * low);
        Self { logarithmic: true, low, high, from, to }
    }

    /// A linear axis that ends with a tick.
    pub(crate) fn rounded(mut self, ticks: usize) -> Self {
        let step = step(self.high / ticks as f64);
        self.high = (self.high / step).ceil() * step;
        self
    }

    /// The place of a value.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let share = if self.logarithmic {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + share * (self.to - self.from)
    }

    /// Round values along it, about `count` of them.
    pub(crate) fn ticks(&self, count: usize) -> Vec<f64> {
        if !self.logarithmic {
            let step = step(self.high / count as f64);
            let last = (self.high / step * (1.0 + 1e-9)).floor() as u64;
            return (0..=last).map(|tick| tick as f64 * step).collect();
        }
        let within = |digits: &[f64]| -> Vec<f64> {
            let powers = (0..=15).map(|power| 10f64.powi(power));
            powers
                .flat_map(|power| digits.iter().map(move |digit| digit * power))
                .filter(|value| (self.low..=self.high * (1.0 + 1e-9)).contains(value))
                .collect()
        };
        let fine = within(&[1.0, 2.0, 5.0]);
        if fine.len() <= count + 3 { fine } else { within(&[1.0]) }
    }
}

/// 1, 2 and 5 times the powers of ten round a value, ascending.
fn steps(value: f64) -> impl DoubleEndedIterator<Item = f64> {
    let power = value.log10().floor() as i32;
    [power - 1, power, power + 1]
        .into_iter()
        .flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * 10f64.powi(power)))
}

/// The smallest 1, 2 or 5 times a power of ten that is at least `least`.
fn step(least: f64) -> f64 {
    steps(least).find(|step| *step >= least * (1.0 - 1e-9)).unwrap_or(least)
}

/// A count in few letters: `0`, `0.05`, `500`, `20k`, `1.5M`.
pub(crate) fn short(count: f64) -> String {
    let (value, unit) = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")]
        .into_iter()
        .find(|(unit, _)| count >= *unit)
        .map_or((count, ""), |(unit, name)| (count / unit, name));
    // A share of a percent needs another digit.
    let decimals = if count < 1.0 { 3 } else { 1 };
    let text = format!("{value:.decimals$}");
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axis_ticks_are_round_numbers() {
        let axis = Axis::linear(312_000.0, 300.0, 0.0).rounded(5);
        assert_eq!(axis.ticks(5).map_short(), ["0", "100k", "200k", "300k", "400k"]);
        assert_eq!((axis.place(0.0), axis.place(400_000.0)), (300.0, 0.0));
        let axis = Axis::linear(64.5, 0.0, 645.0);
        assert_eq!(axis.ticks(8).map_short(), ["0", "10", "20", "30", "40", "50", "60"]);
        let axis = Axis::logarithmic(20_451.0, 1_071_190.0, 300.0, 0.0);
        assert_eq!(axis.ticks(5).map_short(), ["20k", "50k", "100k", "200k", "500k", "1M", "2M"]);
        assert_eq!((axis.place(20_000.0), axis.place(2e6)), (300.0, 0.0));
        let axis = Axis::linear(0.083, 300.0, 0.0).rounded(5);
        assert_eq!(axis.ticks(5).map_short(), ["0", "0.02", "0.04", "0.06", "0.08", "0.1"]);
        let axis = Axis::logarithmic(1.0, 3e9, 300.0, 0.0);
        assert_eq!(axis.ticks(5).map_short()[..3], ["1", "10", "100"]);
    }

    #[test]
    fn axes_of_one_value_are_axes_all_the_same() {
        for axis in [Axis::linear(0.0, 0.0, 9.0).rounded(5), Axis::logarithmic(1.0, 1.0, 0.0, 9.0)] {
            assert!(axis.place(1.0).is_finite(), "{axis:?}");
            assert!(axis.ticks(5).len() >= 2, "{axis:?}");
        }
    }

    trait MapShort {
        fn map_short(&self) -> Vec<String>;
    }
    impl MapShort for Vec<f64> {
        fn map_short(&self) -> Vec<String> {
            self.iter().map(|tick| short(*tick)).collect()
        }
    }
}
