//! What was uploaded although it had not changed, what was downloaded only to come back, and what that cost.

use super::super::bind::Staged;
use super::{NO_VERSION, Times};
use std::collections::HashMap;

/// How many arguments are remembered, and how many results. What comes later is not counted.
const REMEMBERED: usize = 4096;

/// What a worker counted about its host arguments.
#[derive(Default)]
pub struct Record {
    arguments: HashMap<Key, UploadUse>,
    programs: HashMap<u64, ProgramUse>,
    /// What the last launches downloaded, by address: size and fingerprint.
    downloads: HashMap<usize, (u64, u64)>,
}

/// Program, parameter, and address in host memory: one parameter may get many tensors, such as the weights of layers.
type Key = (u64, u32, usize);

/// How one host tensor was used as one argument. Times are shares of the copies of a launch, by bytes.
#[derive(Clone, Debug)]
pub struct UploadUse {
    /// Number of the program.
    pub cid: u64,
    /// Index into its parameters.
    pub param: u32,
    /// Size in the last launch.
    pub bytes: u64,
    /// Uploads.
    pub uploads: u64,
    /// Uploads of the bytes of the upload before.
    pub unchanged: u64,
    /// Nanoseconds that those took.
    pub unchanged_ns: u64,
    /// Launches that used the copy on the device instead of an upload.
    pub kept: u64,
    /// Uploads of what had been downloaded just before.
    pub round_trips: u64,
    /// Nanoseconds of these uploads and of the downloads after them.
    pub round_trip_ns: u64,
    version: u64,
    print: u64,
}

/// How one program was used.
#[derive(Clone, Debug, Default)]
pub struct ProgramUse {
    /// Launches.
    pub launches: u64,
    /// Nanoseconds that they took, copies included.
    pub wall_ns: u64,
}

/// An upload of the launch that runs.
#[derive(Clone, Copy)]
pub struct Upload {
    key: Option<Key>,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Changed,
    Unchanged,
    RoundTrip,
}

impl Record {
    /// Notes what is about to be uploaded.
    pub fn upload(&mut self, cid: u64, staged: &Staged, print: u64) -> Upload {
        let Staged { host, bytes, param, version, .. } = *staged;
        let key = (cid, param, host as usize);
        let came_back = self.downloads.get(&(host as usize)) == Some(&(bytes, print));
        if self.arguments.len() >= REMEMBERED && !self.arguments.contains_key(&key) {
            return Upload { key: None, kind: Kind::Changed };
        }
        let known = self.arguments.entry(key).or_insert(UploadUse {
            cid,
            param,
            bytes,
            version,
            print,
            uploads: 0,
            unchanged: 0,
            unchanged_ns: 0,
            kept: 0,
            round_trips: 0,
            round_trip_ns: 0,
        });
        let is_repeated = known.uploads + known.kept > 0 && known.bytes == bytes && known.print == print;
        let is_written = known.version != version && version != NO_VERSION;
        let kind = match () {
            () if came_back => Kind::RoundTrip,
            () if is_repeated && !is_written => Kind::Unchanged,
            () => Kind::Changed,
        };
        (known.bytes, known.version, known.print) = (bytes, version, print);
        Upload { key: Some(key), kind }
    }

    /// Counts a launch.
    pub fn launched(&mut self, cid: u64, uploads: &[Upload], staged: &[Staged], times: &Times) {
        let program = self.programs.entry(cid).or_default();
        program.launches += 1;
        program.wall_ns += u64::try_from(times.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let uploaded = || staged.iter().filter(|staged| staged.direction != crate::program::Direction::Out);
        let total_in: u64 = uploaded().filter(|staged| !staged.is_fresh).map(|staged| staged.bytes).sum();
        let is_written = |staged: &&Staged| staged.direction != crate::program::Direction::In;
        let total_out: u64 = staged.iter().filter(is_written).map(|staged| staged.bytes).sum();
        let share = |bytes: u64, total: u64, ns: u64| (ns as f64 * bytes as f64 / total.max(1) as f64) as u64;
        for (upload, staged) in uploads.iter().zip(uploaded()) {
            let Some(known) = upload.key.and_then(|key| self.arguments.get_mut(&key)) else { continue };
            if staged.is_fresh {
                known.kept += 1;
                continue;
            }
            known.uploads += 1;
            let ns = share(staged.bytes, total_in, times.upload_ns);
            match upload.kind {
                Kind::Changed => {}
                Kind::Unchanged => {
                    (known.unchanged, known.unchanged_ns) = (known.unchanged + 1, known.unchanged_ns + ns)
                }
                Kind::RoundTrip => {
                    let back = if is_written(&staged) { share(staged.bytes, total_out, times.download_ns) } else { 0 };
                    (known.round_trips, known.round_trip_ns) = (known.round_trips + 1, known.round_trip_ns + ns + back);
                }
            }
        }
    }

    /// Notes what was downloaded.
    pub fn download(&mut self, staged: &Staged, print: u64) {
        if self.downloads.len() >= REMEMBERED && !self.downloads.contains_key(&(staged.host as usize)) {
            self.downloads.clear();
        }
        self.downloads.insert(staged.host as usize, (staged.bytes, print));
    }

    /// The arguments, in no order.
    pub fn arguments(&self) -> impl Iterator<Item = &UploadUse> {
        self.arguments.values()
    }

    /// A program that was launched.
    pub fn program(&self, cid: u64) -> ProgramUse {
        self.programs.get(&cid).cloned().unwrap_or_default()
    }
}
