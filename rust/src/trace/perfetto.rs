//! Timelines in Perfetto's own format: a sequence of `TracePacket` messages of protocol buffers.
//!
//! The few messages that a timeline needs are encoded by hand; the library that could do it (`perfetto-sdk`) builds
//! Perfetto's C++ sources. Field numbers are those of `protos/perfetto/trace` in the Perfetto project.

use super::timeline::{Group, Sink, Slice, Value};

const PACKET: u32 = 1;
const PACKET_TIMESTAMP: u32 = 8;
const PACKET_SEQUENCE: u32 = 10;
const PACKET_TRACK_EVENT: u32 = 11;
const PACKET_TRACK_DESCRIPTOR: u32 = 60;

const DESCRIPTOR_UUID: u32 = 1;
const DESCRIPTOR_NAME: u32 = 2;
const DESCRIPTOR_PARENT: u32 = 5;
const DESCRIPTOR_COUNTER: u32 = 8;
const DESCRIPTOR_RANK: u32 = 12;

const EVENT_ANNOTATION: u32 = 4;
const EVENT_TYPE: u32 = 9;
const EVENT_TRACK: u32 = 11;
const EVENT_NAME: u32 = 23;
const EVENT_COUNTER_VALUE: u32 = 30;
const EVENT_FLOWS: u32 = 47;
const EVENT_FLOWS_END: u32 = 48;
const SLICE_BEGIN: u64 = 1;
const SLICE_END: u64 = 2;
const COUNTER: u64 = 4;

const ANNOTATION_NUMBER: u32 = 3;
const ANNOTATION_TEXT: u32 = 6;
const ANNOTATION_NAME: u32 = 10;

/// Number of the first track; 1 and 2 are the groups, the counters come from the other end.
const FIRST_TRACK: u64 = 16;

/// Writes packets into a buffer that its owner empties now and then.
#[derive(Debug, Default)]
pub struct Perfetto {
    /// What has been written since the buffer was last emptied.
    pub out: Vec<u8>,
    groups: Vec<Group>,
    counters: Vec<(String, u32)>,
}

impl Perfetto {
    fn packet(&mut self, content: &Message) {
        let mut packet = Message::default();
        packet.0.extend_from_slice(&content.0);
        packet.number(PACKET_SEQUENCE, 1);
        let mut trace = Message::default();
        trace.message(PACKET, &packet);
        self.out.append(&mut trace.0);
    }

    fn descriptor(&mut self, uuid: u64, name: &str, parent: Option<u64>, rank: u64, counter: bool) {
        let mut descriptor = Message::default();
        descriptor.number(DESCRIPTOR_UUID, uuid);
        descriptor.text(DESCRIPTOR_NAME, name);
        if let Some(parent) = parent {
            descriptor.number(DESCRIPTOR_PARENT, parent);
        }
        if counter {
            descriptor.message(DESCRIPTOR_COUNTER, &Message::default());
        }
        descriptor.number(DESCRIPTOR_RANK, rank);
        let mut packet = Message::default();
        packet.message(PACKET_TRACK_DESCRIPTOR, &descriptor);
        self.packet(&packet);
    }

    fn event(&mut self, at_ns: u64, event: &Message) {
        let mut packet = Message::default();
        packet.number(PACKET_TIMESTAMP, at_ns);
        packet.message(PACKET_TRACK_EVENT, event);
        self.packet(&packet);
    }
}

impl Sink for Perfetto {
    fn track(&mut self, id: u32, group: Group, name: &str) {
        let (parent, title) = match group {
            Group::Host => (1, "host"),
            Group::Device => (2, "device"),
        };
        if !self.groups.contains(&group) {
            self.groups.push(group);
            self.descriptor(parent, title, None, parent, false);
        }
        self.descriptor(FIRST_TRACK + u64::from(id), name, Some(parent), id.into(), false);
    }

    fn slice(&mut self, slice: &Slice<'_>) {
        let track = FIRST_TRACK + u64::from(slice.track);
        let mut begin = Message::default();
        begin.number(EVENT_TYPE, SLICE_BEGIN);
        begin.number(EVENT_TRACK, track);
        begin.text(EVENT_NAME, slice.name);
        for (name, value) in slice.arguments {
            let mut annotation = Message::default();
            annotation.text(ANNOTATION_NAME, name);
            match value {
                Value::Text(text) => annotation.text(ANNOTATION_TEXT, text),
                Value::Number(number) => annotation.number(ANNOTATION_NUMBER, *number),
            }
            begin.message(EVENT_ANNOTATION, &annotation);
        }
        for flow in slice.flows_out.clone() {
            begin.fixed(EVENT_FLOWS, flow);
        }
        if let Some(flow) = slice.flow_in {
            begin.fixed(EVENT_FLOWS_END, flow);
        }
        self.event(slice.begin_ns, &begin);
        let mut end = Message::default();
        end.number(EVENT_TYPE, SLICE_END);
        end.number(EVENT_TRACK, track);
        self.event(slice.begin_ns + slice.duration_ns, &end);
    }

    fn counter(&mut self, name: &str, worker: u32, at_ns: u64, value: u64) {
        let known = self.counters.iter().position(|(other, of)| other == name && *of == worker);
        let index = known.unwrap_or_else(|| {
            self.counters.push((name.to_owned(), worker));
            self.counters.len() - 1
        });
        let uuid = u64::MAX - index as u64;
        if known.is_none() {
            self.descriptor(uuid, &format!("{name} of worker {worker}"), None, index as u64, true);
        }
        let mut event = Message::default();
        event.number(EVENT_TYPE, COUNTER);
        event.number(EVENT_TRACK, uuid);
        event.number(EVENT_COUNTER_VALUE, value);
        self.event(at_ns, &event);
    }
}

/// A message of protocol buffers while it is put together.
#[derive(Debug, Default)]
struct Message(Vec<u8>);

impl Message {
    fn number(&mut self, field: u32, value: u64) {
        self.varint(u64::from(field) << 3);
        self.varint(value);
    }

    fn fixed(&mut self, field: u32, value: u64) {
        self.varint(u64::from(field) << 3 | 1);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn text(&mut self, field: u32, text: &str) {
        self.bytes(field, text.as_bytes());
    }

    fn message(&mut self, field: u32, message: &Message) {
        self.bytes(field, &message.0);
    }

    fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}
