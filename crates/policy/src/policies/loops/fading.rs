//! Sums in which older terms count less.

/// What a term that is added now weighs in sums that fade by a factor a step.
///
/// Instead of multiplying every sum by the decay at each step, later terms weigh more, so that a
/// step costs the same for any number of sums. Sums mean something only in proportion to
/// [`weight`](Self::weight) or to one another.
#[derive(Clone, Debug)]
pub(crate) struct Fading {
    weight: f64,
    /// 1 / decay.
    growth: f64,
}

/// Where weights are scaled back. A power of two: scaling changes no digit, so that it never
/// decides anything.
const LIMIT: f64 = (1_u64 << 63) as f64;

impl Fading {
    /// `decay`, above 0 to 1, is what one step leaves of a term.
    pub(crate) fn new(decay: f64) -> Self {
        Self { weight: 1.0, growth: 1.0 / decay }
    }

    /// The weight of a term that is added now.
    #[inline]
    pub(crate) fn weight(&self) -> f64 {
        self.weight
    }

    /// A step. `sums` are all the sums of terms weighed by this.
    #[inline]
    pub(crate) fn step<'a>(&mut self, sums: impl IntoIterator<Item = &'a mut f64>) {
        self.weight *= self.growth;
        if self.weight >= LIMIT {
            self.weight /= LIMIT;
            sums.into_iter().for_each(|sum| *sum /= LIMIT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fading_sums_equal_plainly_weighted_ones() {
        let mut fading = Fading::new(0.9);
        let (mut sum, mut plain) = (0.0, 0.0);
        for step in 0..5000 {
            if step % 7 < 3 && step < 4000 {
                sum += fading.weight();
                plain += 1.0;
            }
            assert!((sum / fading.weight() - plain).abs() < 1e-9, "step {step}");
            fading.step([&mut sum]);
            plain *= 0.9;
        }
        assert!(sum.is_finite() && sum < 1e-30);
    }
}
