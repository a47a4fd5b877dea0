//! Which device a platform name opens.

use super::codes::Edge;
use crate::device::Device;
use crate::device::sim::pool::{MAX_CORES, default_cores};
use crate::device::sim::profile::ProfilingDevice;
use crate::device::sim::sanitize::{CheckingDevice, Sanitizers};
use crate::device::sim::{Chip, SimDevice};
use crate::kernels::Isa;
use pyo3::prelude::*;
use std::path::{Path, PathBuf};

/// Opens the device that `platform` names.
///
/// A real chip is never replaced by the simulator: whoever asks for one wants its numbers.
///
/// `cores` is the number of simulated cores; without it, what `PYPTO_CORES` says, else one for each processor that the
/// process may use. `sanitize` names sanitizers; other names mean nothing, the caller has checked them. With `observe` the
/// device tells more about launches, and checks nothing: `steps` times each step, `tasks` follows what tasks wait for.
///
/// # Errors
/// `ValueError` for an unknown name, for a number of cores that no chip has, and for a `PYPTO_ISA` or `PYPTO_CORES` that
/// cannot be had; `RuntimeError` for a device that this machine or this build does not have.
pub(super) fn open(
    platform: &str,
    device_id: i64,
    cores: Option<usize>,
    schedule_seed: Option<u64>,
    sanitize: &[String],
    observe: Option<&str>,
) -> PyResult<Box<dyn Device>> {
    match platform {
        "a2a3sim" | "a5sim" => {
            let isa = Isa::from_env().map_err(|error| Edge::BadIsa.error(error.to_string()))?;
            let cores = match cores {
                None => default_cores().map_err(|error| Edge::BadCores.error(error.to_string()))?,
                Some(cores) if (1..=MAX_CORES).contains(&cores) => cores,
                Some(cores) => {
                    return Err(Edge::BadCores
                        .error(format!("cores must be a positive number of cores, at most {MAX_CORES}, got {cores}")));
                }
            };
            let chip = if platform == "a5sim" { Chip::A5 } else { Chip::A2a3 };
            let device = SimDevice::new(cores, isa).with_chip(chip);
            let device = match schedule_seed {
                Some(seed) => device.with_schedule_seed(seed),
                None => device,
            };
            match observe {
                Some("steps") => return Ok(Box::new(ProfilingDevice::new(device))),
                Some("tasks") => return Ok(Box::new(CheckingDevice::new(device, Sanitizers::default()))),
                _ => {}
            }
            let has = |name: &str| sanitize.iter().any(|other| other == name);
            let sanitizers = Sanitizers { race: has("race"), uninit: has("uninit"), bounds: has("bounds") };
            match sanitizers.any() {
                true => Ok(Box::new(CheckingDevice::new(device, sanitizers))),
                false => Ok(Box::new(device)),
            }
        }
        "a2a3" | "a5" => Err(Edge::PlatformUnavailable.error(real_chip(platform, device_id))),
        _ => Err(Edge::UnknownPlatform
            .error(format!("Invalid platform {platform:?}; expected one of a2a3sim, a2a3, a5sim, a5"))),
    }
}

/// What keeps a real chip from being opened.
fn real_chip(platform: &str, device_id: i64) -> String {
    let library = find_library("libascendcl.so");
    let node = PathBuf::from(format!("/dev/davinci{device_id}"));
    let mut missing = Vec::new();
    if library.is_none() {
        missing.push("the driver library libascendcl.so (CANN) on the library path".to_owned());
    }
    if !node.exists() {
        missing.push(format!("the device node {}", node.display()));
    }
    let reason = if missing.is_empty() {
        "this build has no driver for real chips".to_owned()
    } else {
        format!("missing: {}", missing.join(" and "))
    };
    format!(
        "platform {platform:?} is a real Ascend chip, which cannot be opened: {reason}. \
         Use platform=\"{platform}sim\" for the simulated chip"
    )
}

/// Looks where the dynamic linker and the vendor's installer put libraries.
fn find_library(name: &str) -> Option<PathBuf> {
    let listed = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
    let vendor = std::env::var("ASCEND_HOME_PATH").map(|home| format!("{home}/lib64")).ok();
    let fixed = ["/usr/local/Ascend/ascend-toolkit/latest/lib64", "/usr/local/lib", "/usr/lib64", "/usr/lib"];
    listed
        .split(':')
        .filter(|directory| !directory.is_empty())
        .chain(vendor.as_deref())
        .chain(fixed)
        .map(|directory| Path::new(directory).join(name))
        .find(|path| path.exists())
}
