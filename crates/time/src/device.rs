//! Paging devices: what is known of each, where it comes from, and the TOML files that hold it.
//!
//! The built-in devices stand for their kind. A `source` says where the figures come from. The
//! figures of a data sheet are the best that the device does, so a prediction from them is a lower
//! bound of the wait. `sweephand devices DIR` measures the device that you have.

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::{env, fs, io};
use sweephand_policy::line;
use sweephand_trace::contents::CodecTimes;

/// The name that stands for the file at [`measured_path`].
pub const MEASURED: &str = "measured";

/// What a device does in one direction.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figures {
    /// From the request of one page to its completion, alone on the device, in microseconds.
    pub latency_us: f64,
    /// Requests of one page that it completes in a second, many at a time.
    pub operations_per_second: f64,
    /// Bytes that it transfers in a second by large requests, many at a time.
    pub bytes_per_second: f64,
    /// Bytes that a larger request transfers in a second beyond the latency of its first page,
    /// alone on the device.
    pub stream_bytes_per_second: f64,
}

/// What was measured of one kind of request.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measurement {
    /// Whether they were writes.
    pub write: bool,
    /// Bytes of a request.
    pub bytes: usize,
    /// Requests at a time.
    pub depth: usize,
    /// Whether pages were written all the time besides, a batch of 64 KiB after the other.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub beside_writes: bool,
    /// Mean time of a request, in microseconds.
    pub latency_us: f64,
    /// Requests completed in a second.
    pub operations_per_second: f64,
}

/// A device that pages go to.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// What it is called.
    pub name: String,
    /// Where the figures come from.
    pub source: String,
    /// Whether the processor does the work itself, so that whoever writes a page waits for it.
    #[serde(default)]
    pub synchronous: bool,
    /// Whether the kernel takes it for a disk that turns, which decides how it reads ahead from
    /// swap. (`queue/rotational` of the block device; virtual disks often say so as well.)
    #[serde(default)]
    pub rotational: bool,
    /// The disk that was measured, as the kernel calls it: `sda`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<String>,
    /// From the request of one page to its completion while something is being written, in
    /// microseconds. Without it, as if nothing were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_beside_writes_us: Option<f64>,
    /// The compressor of a device that compresses pages, as the kernel calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compressor: Option<String>,
    /// Reads.
    pub read: Figures,
    /// Writes.
    pub write: Figures,
    /// Of a device that compresses: how long Sweephand's own codecs take for the pages by which it
    /// was measured, on the same machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub codec_times: Option<CodecTimes>,
    /// The measurements behind the figures, where they were measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub measurements: Vec<Measurement>,
}

/// Why there is no such device.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// Neither a name nor a file.
    #[error(
        "'{0}' is neither hdd, cloud, ssd, nvme, zram nor a file; sweephand devices DIR measures a device"
    )]
    Unknown(String),
    /// Nothing was measured yet.
    #[error("no device has been measured yet; run sweephand devices DIR")]
    NotMeasured,
    /// The file cannot be read.
    #[error("{}", .0.display())]
    Unread(PathBuf, #[source] io::Error),
    /// The file is not a device.
    #[error("{}: {reason}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

/// The built-in devices: name and file.
pub const BUILT_IN: [(&str, &str); 5] = [
    ("hdd", include_str!("devices/hdd.toml")),
    ("cloud", include_str!("devices/cloud.toml")),
    ("ssd", include_str!("devices/ssd.toml")),
    ("nvme", include_str!("devices/nvme.toml")),
    ("zram", include_str!("devices/zram.toml")),
];

/// Where `sweephand devices DIR` keeps what it measured: `sweephand/device.toml` in the user's
/// configuration directory. `None` without a home directory.
pub fn measured_path() -> Option<PathBuf> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = set("XDG_CONFIG_HOME").filter(|path| path.is_absolute());
    let folder = folder.or_else(|| set("HOME").map(|home| home.join(".config")))?;
    Some(folder.join("sweephand/device.toml"))
}

impl Device {
    /// The file that [`Device::named`] reads for a name, unless the device is built in.
    pub fn file_of(name: &str) -> Option<PathBuf> {
        match name {
            name if BUILT_IN.iter().any(|(known, _)| *known == name) => None,
            MEASURED => measured_path(),
            name => Some(PathBuf::from(name)),
        }
    }

    /// The device that a user names: a built-in one, [`MEASURED`], or a file.
    ///
    /// # Errors
    /// There is no such device, or the file is not one.
    pub fn named(name: &str) -> Result<Self, DeviceError> {
        if let Some((name, text)) = BUILT_IN.iter().find(|(known, _)| *known == name) {
            return Self::parse(text, Path::new(name));
        }
        let path = Self::file_of(name).filter(|path| name != MEASURED || path.exists());
        let path = path.ok_or(DeviceError::NotMeasured)?;
        if !path.exists() && path.components().count() == 1 && path.extension().is_none() {
            return Err(DeviceError::Unknown(name.to_string()));
        }
        let text = fs::read_to_string(&path).map_err(|error| DeviceError::Unread(path.clone(), error))?;
        Self::parse(&text, &path)
    }

    /// A device from the text of its file, which is called `path` in errors.
    fn parse(text: &str, path: &Path) -> Result<Self, DeviceError> {
        let invalid = |reason: String| DeviceError::Invalid { path: path.to_path_buf(), reason };
        let device: Self = toml::from_str(text)
            .map_err(|error| invalid(line::message(text, error.span(), error.message())))?;
        if let Some(value) = device.read_beside_writes_us.filter(|value| !value.is_finite() || *value <= 0.0)
        {
            return Err(invalid(format!("read_beside_writes_us is {value}; it must be more than 0")));
        }
        if device.codec_times.is_some_and(|times| !times.is_sound()) {
            return Err(invalid("codec_times: each must be more than 0 and at most a second, in ns".into()));
        }
        for (direction, figures) in [("read", &device.read), ("write", &device.write)] {
            let Figures { latency_us, operations_per_second, bytes_per_second, stream_bytes_per_second } =
                *figures;
            let named = [
                ("latency_us", latency_us),
                ("operations_per_second", operations_per_second),
                ("bytes_per_second", bytes_per_second),
                ("stream_bytes_per_second", stream_bytes_per_second),
            ];
            if let Some((name, value)) = named.iter().find(|(_, value)| !value.is_finite() || *value <= 0.0) {
                return Err(invalid(format!("{direction}.{name} is {value}; it must be more than 0")));
            }
        }
        Ok(device)
    }

    /// The text of its file.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("plain data")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_devices_have_figures_with_a_source_and_come_back_from_their_text() {
        for (name, _) in BUILT_IN {
            let device = Device::named(name).unwrap();
            assert_eq!(device.name, name);
            assert!(device.source.len() > 20, "{name}");
            assert_eq!(Device::parse(&device.to_toml(), Path::new("x")).unwrap(), device, "{name}");
        }
        let wait = |name: &str| Device::named(name).unwrap().read.latency_us;
        let waits = BUILT_IN.map(|(name, _)| wait(name));
        assert!(waits.is_sorted_by(|slow, fast| slow > fast), "{waits:?}");
    }

    #[test]
    fn a_name_stands_for_a_built_in_device_what_was_measured_or_a_file() {
        let measured = measured_path().expect("a home directory");
        assert!(measured.ends_with("sweephand/device.toml"), "{}", measured.display());
        let files = [("hdd", None), (MEASURED, Some(measured)), ("own.toml", Some("own.toml".into()))];
        for (name, file) in files {
            assert_eq!(Device::file_of(name), file, "{name}");
        }
    }

    #[test]
    fn a_file_that_is_no_device_is_refused_with_its_place() {
        let text = BUILT_IN[0].1;
        let error = |text: &str| Device::parse(text, Path::new("d.toml")).unwrap_err().to_string();
        assert!(error("name = 3").starts_with("d.toml: line 1: "), "{}", error("name = 3"));
        let zero = text.replacen("latency_us = ", "latency_us = 0.0 # ", 1);
        assert_eq!(error(&zero), "d.toml: read.latency_us is 0; it must be more than 0");
        let beside = format!("read_beside_writes_us = -1.0\n{text}");
        assert_eq!(error(&beside), "d.toml: read_beside_writes_us is -1; it must be more than 0");
        let zram = BUILT_IN[4].1;
        let times = format!("codec_times: {}", "each must be more than 0 and at most a second, in ns");
        for to in ["decompress_ns = 0 #", "decompress_ns = 1_000_000_001 #"] {
            let damaged = zram.replacen("decompress_ns = ", to, 1);
            assert_ne!(damaged, zram);
            assert_eq!(error(&damaged), format!("d.toml: {times}"));
        }
        for before in ["", "# paint\n"] {
            let place = format!("line {}: unknown field `colour`", 1 + before.lines().count());
            let unknown = format!("{before}colour = 'red'\n{text}");
            assert!(error(&unknown).contains(&place), "{}", error(&unknown));
        }
        assert!(matches!(Device::named("floppy"), Err(DeviceError::Unknown(_))));
        for file in ["no/such.toml", "no/such", "such.toml"] {
            assert!(matches!(Device::named(file), Err(DeviceError::Unread(..))), "{file}");
        }
    }
}
