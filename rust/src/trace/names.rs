//! Names of spans. A span holds a number; the text is kept once.
//!
//! Names are dotted paths: a span whose name begins with another span's name and a dot lies inside it. The names that
//! the contract fixes are constants here, everything else (a kernel, a parameter) is interned when a program is registered.

use super::{Name, forks};
use crate::sync::global::{self, Mutex, MutexGuard};
use std::collections::HashMap;

macro_rules! well_known {
    ($($constant:ident = $text:literal, $attribute:expr, $doc:literal;)*) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        #[repr(u16)]
        enum Position { $($constant),* }
        $(#[doc = $doc] pub const $constant: Name = Name(Position::$constant as u16);)*
        /// Text and attribute of the well-known names, in the order of their numbers.
        const WELL_KNOWN: &[(&str, Option<&str>)] = &[$(($text, $attribute)),*];
    };
}

well_known! {
    OTHER = "other", None, "Stands for every name that was interned after the table was full.";
    CHIP_RUN = "chip.run", None, "One launch, from the bound arguments to the last copy back. `arg`: content id of the registration.";
    CONFIG = "chip.run.config", Some("value"), "Lies around the settings of a launch that nothing here reads. `arg`: how many. Each is a span below with its number: `chip.run.config.ring_heap`.";
    BIND = "chip.run.bind", None, "Checks the arguments and gives each its place on the device.";
    BIND_ARGS = "chip.run.bind.args", Some("args"), "Checks the arguments. `arg`: how many.";
    H2D = "chip.run.h2d", Some("bytes"), "Copies the host arguments to the device; one span for each lies below, named after its parameter. `arg`: bytes.";
    D2H = "chip.run.d2h", Some("bytes"), "Copies the results back; one span for each lies below, named after its parameter. `arg`: bytes.";
    RUNNER_RUN = "chip.run.runner_run", None, "The device executes the program.";
    DEVICE_WALL = "chip.run.runner_run.device_wall", None, "The device's own work. Device times are relative to its begin.";
    ORCH = "chip.run.runner_run.device_wall.orch", None, "The orchestrating function.";
    SCHED = "chip.run.runner_run.device_wall.sched", None, "From the first task to the last.";
    TASK = "chip.run.runner_run.device_wall.task", Some("kernel"), "One task on one core. `arg`: index of its kernel in the program.";
    VALIDATE = "chip.run.validate", None, "Checks guard bytes after a launch in poison mode.";
    PACK = "chip.run.pack", Some("bytes"), "Packs a resident weight for matrix products. `arg`: bytes of the packed form.";
    COPY_IN = "chip.copy.h2d", Some("bytes"), "A copy to the device that a program asks for, outside launches. `arg`: bytes.";
    COPY_OUT = "chip.copy.d2h", Some("bytes"), "A copy from the device that a program asks for. `arg`: bytes.";
    ALLOC = "chip.arena.alloc", Some("bytes"), "An allocation that a program asks for, where there is memory. `arg`: bytes, 0 where there was none.";
    FREE = "chip.arena.free", Some("bytes"), "Gives an allocation back. `arg`: bytes.";
    RESERVE = "chip.arena.reserve", Some("bytes"), "Takes memory that launches copy to or work in. `arg`: bytes.";
    LIVE_BYTES = "live_bytes", Some("value"), "Counter: bytes of live allocations of a worker.";
    QUEUE_DEPTH = "queue_depth", Some("value"), "Counter: launches of a worker that were queued and are not over.";
    KERNELS = "kernels", None, "No span: what a ring holds before the record of tasks of several kernels that were timed together.";
    PREWARM = "chip.prewarm.build", None, "Compiles a program at registration. `arg`: content id of the registration.";
}

pub(super) struct Table {
    texts: Vec<&'static str>,
    numbers: HashMap<&'static str, u16>,
}

static TABLE: Mutex<Option<Table>> = Mutex::new(None);

/// The number of `name`, the same for the same text during the whole process. Takes a lock and keeps the text for ever,
/// so it belongs where a program is registered. There is room for 65,535 names; later ones all become [`OTHER`].
pub fn intern(name: &str) -> Name {
    let mut guard = lock();
    let table = guard.get_or_insert_with(Table::new);
    if let Some(number) = table.numbers.get(name) {
        return Name(*number);
    }
    let Ok(number) = u16::try_from(table.texts.len()) else { return OTHER };
    let text: &'static str = Box::leak(name.into());
    table.texts.push(text);
    table.numbers.insert(text, number);
    Name(number)
}

impl Name {
    /// The dotted path.
    pub fn text(self) -> &'static str {
        if let Some((text, _)) = WELL_KNOWN.get(self.0 as usize) {
            return text;
        }
        let guard = lock();
        guard.as_ref().and_then(|table| table.texts.get(self.0 as usize)).copied().unwrap_or(WELL_KNOWN[0].0)
    }

    /// How many names this one lies inside: `chip.run` has depth 0 and `chip.run.bind.args` 2. A path that nobody
    /// interned does not count, so `chip.prewarm.build` has depth 0.
    pub fn depth(self) -> usize {
        let text = self.text();
        text.match_indices('.').filter(|(dot, _)| is_name(&text[..*dot])).count()
    }

    /// The path without the name that it lies inside: `args` for `chip.run.bind.args`.
    pub fn leaf(self) -> &'static str {
        let text = self.text();
        let inside = text.match_indices('.').map(|(dot, _)| dot).rfind(|dot| is_name(&text[..*dot]));
        inside.map_or(text, |dot| &text[dot + 1..])
    }

    /// Whether records of this name are values of a counter, not spans.
    pub fn is_counter(self) -> bool {
        self == LIVE_BYTES || self == QUEUE_DEPTH
    }

    /// What the argument of a span of this name is called in exports: the word of the nearest well-known name at or
    /// above it, so that `chip.run.h2d.weight` has `bytes` too.
    pub fn attribute(self) -> Option<&'static str> {
        let text = self.text();
        let is_around =
            |path: &str| text.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        WELL_KNOWN
            .iter()
            .filter(|(path, _)| is_around(path))
            .max_by_key(|(path, _)| path.len())
            .and_then(|(_, word)| *word)
    }
}

/// Some span is called `path`.
fn is_name(path: &str) -> bool {
    lock().get_or_insert_with(Table::new).numbers.contains_key(path)
}

impl Table {
    fn new() -> Table {
        let texts: Vec<&str> = WELL_KNOWN.iter().map(|(text, _)| *text).collect();
        let numbers = texts.iter().zip(0..).map(|(text, number)| (*text, number)).collect();
        Table { texts, numbers }
    }
}

/// The table, while nobody else may touch it.
pub(super) type Lock = MutexGuard<'static, Option<Table>>;

/// Keeps others out of the table; a fork happens under it, so that the child finds the table whole.
pub(super) fn lock() -> Lock {
    forks::survive();
    global::lock(&TABLE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_text_has_the_same_number_for_ever() {
        let name = intern("names.test.kernel");
        assert_eq!(intern("names.test.kernel"), name);
        assert_ne!(intern("names.test.other"), name);
        assert_eq!(name.text(), "names.test.kernel");
    }

    #[test]
    fn constants_are_what_interning_their_text_gives() {
        assert_eq!(intern("chip.run"), CHIP_RUN);
        assert_eq!(intern("chip.run.runner_run.device_wall.task"), TASK);
        for (number, (text, _)) in WELL_KNOWN.iter().enumerate() {
            assert_eq!(intern(text), Name(number as u16));
            assert_eq!(Name(number as u16).text(), *text);
        }
    }

    #[test]
    fn depth_counts_the_names_around_a_name() {
        let depths = [CHIP_RUN, BIND, BIND_ARGS, H2D, RUNNER_RUN, DEVICE_WALL, TASK, PREWARM].map(Name::depth);
        assert_eq!(depths, [0, 1, 2, 1, 1, 2, 3, 0]);
        assert_eq!(intern(&format!("{}.gemm", TASK.text())).depth(), 4);
    }

    #[test]
    fn the_leaf_is_what_the_names_around_do_not_say() {
        let leaves = [CHIP_RUN, BIND_ARGS, DEVICE_WALL, PREWARM].map(Name::leaf);
        assert_eq!(leaves, ["chip.run", "args", "device_wall", "chip.prewarm.build"]);
    }

    #[test]
    fn a_name_below_a_well_known_one_calls_its_argument_alike() {
        assert_eq!(intern("chip.run.h2d.weight").attribute(), Some("bytes"));
        assert_eq!(H2D.attribute(), Some("bytes"));
        assert_eq!(intern("chip.run.h2dx").attribute(), None);
        assert_eq!(CHIP_RUN.attribute(), None);
    }
}
