//! How much memory is enough for a process or a service, as far as its epochs tell.

use crate::{EnoughPages, FaultCost, FaultCurve, History, Hour, Limits, Needs, ServiceWatching, Watching};
use serde::Serialize;
use serde_json::{Value, json};
use std::fmt;
use sweephand_pager_interface::memory::PAGE_BYTES;
use sweephand_results::{bytes, grouped};
use sweephand_sim::SweepError;

/// Memory is enough when the faults on pages that were used before are within this share of the
/// pages used. `sweephand_advice::SLACK` is the same rule, of faults that are all known.
const SLACK: f64 = 0.10;

/// What is enough.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LiveAdvice {
    /// Bytes a page.
    pub page_bytes: u64,
    /// Epochs that were watched, and how long they were together.
    pub epochs: u64,
    /// Nanoseconds from the start of the watch to the end of the last epoch.
    pub watched_ns: u64,
    /// Pages that were used.
    pub used_pages: u64,
    /// Pages used in the epoch that has the most.
    pub largest_epoch_pages: u64,
    /// Memory is enough if LRU takes at most this many faults on pages used before in the watch.
    pub allowed_faults: u64,
    /// With less than this, LRU certainly takes more faults.
    pub enough_at_least_pages: u64,
    /// With this, LRU takes no more, whatever the order within the epochs was.
    pub enough_at_most_pages: u64,
    /// The watch looked at one page in this many. If it is more than 1, all these numbers are
    /// estimates.
    pub one_page_in: u64,
    /// The standard error of the estimates, as a share: that of the pages used, in the epoch where
    /// it is largest.
    pub standard_error: f64,
    /// Faults by memory size, if uses were kept.
    #[serde(skip)]
    pub curve: Option<FaultCurve>,
    /// The least memory for a slowdown, if that was asked for.
    #[serde(skip)]
    pub needs: Option<Needs>,
    /// Limits to set, for a service.
    #[serde(skip)]
    pub limits: Option<Limits>,
}

impl LiveAdvice {
    /// What a watch says. `None`: there is no epoch with a page.
    ///
    /// # Errors
    /// See [`FaultCurve::of`].
    pub fn of(watching: &Watching, wanted: Option<(&FaultCost, f64)>) -> Result<Option<Self>, SweepError> {
        let sample = watching.pace().sample();
        let advice = Self::of_history(watching.history(), sample.one_page_in(), watching.largest_error());
        advice.map(|advice| advice.with_curve(watching.history(), wanted)).transpose()
    }

    /// What a watch of a service says, which looks at all pages. With hours that were kept, their
    /// needs count.
    ///
    /// # Errors
    /// See [`FaultCurve::of`].
    pub fn of_service(
        watching: &ServiceWatching,
        wanted: Option<(&FaultCost, f64)>,
        hours: &[Hour],
    ) -> Result<Option<Self>, SweepError> {
        let history = watching.history();
        let Some(advice) = Self::of_history(history, 1, 0.0) else { return Ok(None) };
        let mut advice = advice.with_curve(history, wanted)?;
        advice.needs = advice.needs.map(|needs| needs.by_hours(hours));
        let limits = advice.needs.as_ref().map(|needs| Limits::of(needs, watching.state()));
        Ok(Some(Self { limits, ..advice }))
    }

    /// The same with the curve and, if a slowdown is wanted on a device, the needs.
    fn with_curve(self, history: &History, wanted: Option<(&FaultCost, f64)>) -> Result<Self, SweepError> {
        let curve = FaultCurve::of(history)?;
        let needs = curve.as_ref().zip(wanted);
        let needs = needs.map(|(curve, (cost, factor))| Needs::of(history, curve, cost, factor));
        Ok(Self { curve, needs, ..self })
    }

    /// For programs.
    pub fn to_json(&self) -> Value {
        let mut all = serde_json::to_value(self).expect("plain data");
        let cost = self.needs.as_ref().map(|needs| &needs.cost);
        all["curve"] = json!(self.curve.as_ref().map(|curve| curve.to_json(cost)));
        all["needs"] = json!(self.needs.as_ref().map(Needs::to_json));
        all["limits"] = json!(self.limits.as_ref().map(Limits::to_json));
        all
    }

    fn of_history(history: &History, one_page_in: u64, standard_error: f64) -> Option<Self> {
        let used_pages = history.first_uses();
        let allowed_faults = (SLACK * used_pages as f64) as u64;
        let EnoughPages { at_least, at_most } = history.enough(allowed_faults);
        (used_pages > 0).then(|| Self {
            page_bytes: PAGE_BYTES,
            epochs: history.epochs(),
            watched_ns: history.watched().as_nanos() as u64,
            used_pages,
            largest_epoch_pages: history.largest_epoch_pages(),
            allowed_faults,
            enough_at_least_pages: at_least,
            enough_at_most_pages: at_most,
            one_page_in,
            standard_error,
            curve: None,
            needs: None,
            limits: None,
        })
    }
}

impl fmt::Display for LiveAdvice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = |pages: u64| bytes(pages * self.page_bytes);
        writeln!(
            f,
            "Watched for {:.1} s, {} epochs: {} of memory were used, {} in the epoch with the most.",
            self.watched_ns as f64 / 1e9,
            grouped(self.epochs),
            size(self.used_pages),
            size(self.largest_epoch_pages),
        )?;
        write!(f, "{} is enough: LRU takes ", size(self.enough_at_most_pages))?;
        writeln!(
            f,
            "{} faults there at most on pages that were used before in the watch, a tenth of the pages used.",
            grouped(self.allowed_faults)
        )?;
        if self.one_page_in > 1 {
            writeln!(
                f,
                "To keep the budget, one page in {} was looked at: sizes are right within {:.0}% or so, twice the standard error.",
                self.one_page_in,
                200.0 * self.standard_error,
            )?;
        }
        match self.enough_at_least_pages {
            // Every program needs a page.
            0..=1 => write!(
                f,
                "Less may be enough, too: in no epoch is it known how much less, as no page came back after a longer time. \
                 Shorter epochs (--every) tell more."
            )?,
            least => write!(
                f,
                "Less than {} is not enough. What lies between depends on the order of uses within the epochs: shorter ones \
                 (--every) tell more.",
                size(least)
            )?,
        }
        if let Some(curve) = &self.curve {
            let cost = self.needs.as_ref().map(|needs| &needs.cost);
            write!(
                f,
                "\n\nfaults a second on pages that were used before in the watch (LRU: bounds, ?: none; others: \
                 estimates)\n\n{}",
                curve.to_table(cost).to_string().trim_end()
            )?;
        }
        if let Some(needs) = &self.needs {
            write!(f, "\n\n{needs}")?;
        }
        if let Some(limits) = &self.limits {
            write!(f, "\n{}", limits.to_string().trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::look::UsedPage;
    use std::time::Duration;

    #[test]
    fn what_is_enough_lies_between_bounds() {
        let mut history = History::default();
        let advice = |history: &History| LiveAdvice::of_history(history, 4, 0.01);
        assert_eq!(advice(&history), None);
        // A loop over four parts of 100 pages, one an epoch.
        for epoch in 0..12 {
            let first = 100 * (epoch % 4);
            let pages: Vec<UsedPage> =
                (first..first + 100).map(|number| UsedPage { number, dirty: false }).collect();
            history.add(&pages, 1.0, Duration::from_secs(epoch + 1));
        }
        let advice = advice(&history).unwrap();
        assert_eq!((advice.used_pages, advice.allowed_faults), (400, 40));
        // Three other parts between two uses of one: 300 pages and the page itself.
        assert_eq!((advice.enough_at_least_pages, advice.enough_at_most_pages), (301, 400));
        let text = advice.to_string();
        assert!(text.contains("\n1.6 MiB is enough") && text.contains("Less than 1.2 MiB is not"), "{text}");
        assert!(text.contains("one page in 4 was looked at: sizes are right within 2%"), "{text}");
    }
}
