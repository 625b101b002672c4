//! Results as columns. `sweephand/_table.py` makes an Arrow table of them.

use crate::error::raise;
use numpy::IntoPyArray;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use sweephand_results::{Column, Field};

/// A column: its name, the type of its values (`text`, `count`, `ratio`), the values, and where
/// there are some if not everywhere.
pub(crate) type PyColumn = (&'static str, &'static str, Py<PyAny>, Option<Py<PyAny>>);

/// The columns of rows. Numbers are arrays, which are handed over without a copy; words are a list,
/// with `None` where there are none.
pub(crate) fn columns<R>(py: Python<'_>, columns: &[Column<R>], rows: &[R]) -> PyResult<Vec<PyColumn>> {
    columns.iter().map(|column| one(py, column, rows)).collect()
}

fn one<R>(py: Python<'_>, (name, field): &Column<R>, rows: &[R]) -> PyResult<PyColumn> {
    let counts = |counts: Vec<u64>| -> PyResult<Py<PyAny>> {
        // Signed, so that the difference of two of them is one.
        let signed = counts.into_iter().map(i64::try_from).collect::<Result<Vec<_>, _>>();
        let too_large = |_| raise(format!("{name}: a count is more than a signed number of 64 bits holds"));
        signed.map_err(too_large)?.into_pyarray(py).into_py_any(py)
    };
    let ratios = |ratios: Vec<f64>| ratios.into_pyarray(py).into_py_any(py);
    let present = |present: Vec<bool>| present.into_pyarray(py).into_py_any(py);
    Ok(match field {
        Field::Text(of) => {
            let words: Vec<&str> = rows.iter().map(of).collect();
            (*name, "text", words.into_py_any(py)?, None)
        }
        Field::OptionalText(of) => {
            let words: Vec<Option<&str>> = rows.iter().map(of).collect();
            (
                *name,
                "text",
                words.into_py_any(py)?,
                Some(present(rows.iter().map(|row| of(row).is_some()).collect())?),
            )
        }
        Field::Count(of) => (*name, "count", counts(rows.iter().map(of).collect())?, None),
        Field::OptionalCount(of) => {
            let values = counts(rows.iter().map(|row| of(row).unwrap_or_default()).collect())?;
            (*name, "count", values, Some(present(rows.iter().map(|row| of(row).is_some()).collect())?))
        }
        Field::Ratio(of) => (*name, "ratio", ratios(rows.iter().map(of).collect())?, None),
        Field::OptionalRatio(of) => {
            let values = ratios(rows.iter().map(|row| of(row).unwrap_or_default()).collect())?;
            (*name, "ratio", values, Some(present(rows.iter().map(|row| of(row).is_some()).collect())?))
        }
    })
}
