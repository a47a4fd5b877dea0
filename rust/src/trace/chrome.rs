//! Timelines in Chrome's JSON trace format, which Perfetto (`ui.perfetto.dev`) and `chrome://tracing` open.
//!
//! The importers' rules that matter: a name for each process and thread, one number for each counter event, numbers as
//! flow ids, each flow event inside the slice it binds to, slices of a thread nested, and no thread number in two processes.

use super::timeline::{Group, Sink, Slice, Value};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

/// Number of the process that stands for the host, and for the device. Real process numbers would make two recordings
/// differ where nothing differs.
const PROCESSES: [(Group, u32, &str); 2] = [(Group::Host, 1, "host"), (Group::Device, 2, "device")];

/// Writes events into a buffer that its owner empties now and then.
#[derive(Debug)]
pub struct Chrome {
    /// What has been written since the buffer was last emptied.
    pub out: Vec<u8>,
    groups: Vec<Group>,
    /// Whose processes have a name.
    named: Vec<Group>,
    begun: bool,
}

#[derive(Serialize, Default)]
struct Event<'a> {
    ph: &'static str,
    name: &'a str,
    pid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    tid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ts: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cat: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bp: Option<&'static str>,
    #[serde(skip_serializing_if = "Arguments::is_empty")]
    args: Arguments<'a>,
}

#[derive(Default)]
struct Arguments<'a>(&'a [(&'static str, Value<'a>)]);

impl Arguments<'_> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for Arguments<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in self.0 {
            match value {
                Value::Text(text) => map.serialize_entry(key, text)?,
                Value::Number(number) => map.serialize_entry(key, number)?,
            }
        }
        map.end()
    }
}

impl Chrome {
    /// A document without events.
    pub fn new() -> Self {
        Self {
            out: b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[".to_vec(),
            groups: Vec::new(),
            named: Vec::new(),
            begun: false,
        }
    }

    /// Ends the document.
    pub fn finish(&mut self) {
        self.out.extend_from_slice(b"\n]}\n");
    }

    fn event(&mut self, event: &Event<'_>) {
        self.out.extend_from_slice(if self.begun { b",\n" } else { b"\n" });
        self.begun = true;
        serde_json::to_writer(&mut self.out, event).expect("neither a vector nor plain data can fail");
    }

    /// The number of a group's process, which gets its name when it is first asked for.
    fn named(&mut self, group: Group) -> u32 {
        let &(_, pid, text) = PROCESSES.iter().find(|(one, ..)| *one == group).expect("all groups are listed");
        if !self.named.contains(&group) {
            self.named.push(group);
            self.metadata("process_name", pid, None, "name", Value::Text(text));
            self.metadata("process_sort_index", pid, None, "sort_index", Value::Number(pid.into()));
        }
        pid
    }

    fn metadata(&mut self, name: &'static str, pid: u32, tid: Option<u32>, key: &'static str, value: Value<'_>) {
        self.event(&Event { ph: "M", name, pid, tid, args: Arguments(&[(key, value)]), ..Event::default() });
    }
}

impl Default for Chrome {
    fn default() -> Self {
        Self::new()
    }
}

/// A thread number for a track. 0 means "no thread" to some readers.
fn thread(track: u32) -> Option<u32> {
    Some(track + 1)
}

fn micros(ns: u64) -> Option<f64> {
    Some(ns as f64 / 1000.0)
}

impl Sink for Chrome {
    fn track(&mut self, id: u32, group: Group, name: &str) {
        self.groups.push(group);
        let pid = self.named(group);
        self.metadata("thread_name", pid, thread(id), "name", Value::Text(name));
        self.metadata("thread_sort_index", pid, thread(id), "sort_index", Value::Number(id.into()));
    }

    fn slice(&mut self, slice: &Slice<'_>) {
        let group = self.groups[slice.track as usize];
        let (pid, tid, ts) = (self.named(group), thread(slice.track), micros(slice.begin_ns));
        self.event(&Event {
            ph: "X",
            name: slice.name,
            pid,
            tid,
            ts,
            dur: micros(slice.duration_ns),
            args: Arguments(slice.arguments),
            ..Event::default()
        });
        let flow = |ph, bp, id| Event {
            ph,
            bp,
            id: Some(id),
            name: "task",
            cat: Some("launch"),
            pid,
            tid,
            ts,
            ..Event::default()
        };
        for id in slice.flows_out.clone() {
            self.event(&flow("s", None, id));
        }
        if let Some(id) = slice.flow_in {
            self.event(&flow("f", Some("e"), id));
        }
    }

    fn counter(&mut self, name: &str, worker: u32, at_ns: u64, value: u64) {
        let (pid, name) = (self.named(Group::Device), &format!("{name} of worker {worker}"));
        let args = Arguments(&[("value", Value::Number(value))]);
        self.event(&Event { ph: "C", name, pid, ts: micros(at_ns), args, ..Event::default() });
    }
}
