//! What happened to the memory of an arena, the latest of it: who took what, when, and when it went.
//!
//! Recorded always, because the question comes afterwards. It costs an allocation and a free one look at the clock each
//! (25 ns); a launch in the steady state takes no memory, so it records nothing. What is kept of it is bounded.

use super::buffer::Buffer;
use super::suballocator::{Block, GRANULE};
use super::{Arena, Purpose};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

/// The most events that are kept: 0.7 MB, and what is known about the buffers among them, 4 MB at most.
pub const KEPT_EVENTS: usize = 16 << 10;

/// The latest events, oldest first.
#[derive(Debug, Default)]
pub(super) struct History {
    events: VecDeque<Event>,
    lost: u64,
    /// Chunks that are taken now.
    chunks: Vec<(Block, Purpose)>,
}

/// Memory that was taken or went.
#[derive(Clone, Debug)]
pub struct Event {
    /// When.
    pub at: Instant,
    /// Whether it was taken.
    pub is_taken: bool,
    /// What.
    pub memory: Memory,
}

/// A piece of device memory and what it is, or was, taken for.
#[derive(Clone, Debug)]
pub struct Memory {
    /// Distance from the start of the device's memory. Freed memory is given out again, so this is not unique.
    pub offset: u64,
    /// Bytes that are taken: what was asked for, rounded up.
    pub bytes: u64,
    /// The user's buffer, or what launches keep.
    pub holder: Holder,
}

/// Who holds memory.
#[derive(Clone, Debug)]
pub enum Holder {
    /// The user.
    Buffer(Arc<Buffer>),
    /// Launches.
    Kept(Purpose),
}

/// All that is known about the memory's past, and what is taken now.
#[derive(Debug)]
pub struct Timeline {
    /// The latest events, oldest first.
    pub events: Vec<Event>,
    /// Events before them that were forgotten.
    pub lost: u64,
    /// What is taken now.
    pub live: Vec<Memory>,
    /// Bytes from the start of the device's memory that were ever taken.
    pub touched: u64,
}

impl Memory {
    fn new(block: Block, holder: Holder) -> Self {
        Self { offset: block.offset * GRANULE, bytes: block.size * GRANULE, holder }
    }
}

impl History {
    fn record(&mut self, is_taken: bool, block: Block, holder: Holder) {
        if self.events.len() == KEPT_EVENTS {
            self.events.pop_front();
            self.lost += 1;
        }
        self.events.push_back(Event { at: Instant::now(), is_taken, memory: Memory::new(block, holder) });
    }

    pub fn allocated(&mut self, buffer: &Arc<Buffer>) {
        self.record(true, buffer.block(), Holder::Buffer(buffer.clone()));
    }

    pub fn freed(&mut self, buffer: Arc<Buffer>) {
        self.record(false, buffer.block(), Holder::Buffer(buffer));
    }

    pub fn reserved(&mut self, block: Block, purpose: Purpose) {
        self.chunks.push((block, purpose));
        self.record(true, block, Holder::Kept(purpose));
    }

    pub fn released(&mut self, block: Block, purpose: Purpose) {
        self.chunks.retain(|(other, _)| other.offset != block.offset);
        self.record(false, block, Holder::Kept(purpose));
    }
}

impl Arena {
    /// The past of the memory, as far as it is kept. Not for a hot path.
    pub fn timeline(&self) -> Timeline {
        let buffers = self.index.live();
        let buffers = buffers.into_iter().map(|buffer| Memory::new(buffer.block(), Holder::Buffer(buffer)));
        let chunks = self.history.chunks.iter().map(|&(block, purpose)| Memory::new(block, Holder::Kept(purpose)));
        let mut live: Vec<_> = buffers.chain(chunks).collect();
        live.sort_by_key(|memory| memory.offset);
        Timeline {
            events: self.history.events.iter().cloned().collect(),
            lost: self.history.lost,
            live,
            touched: self.touched,
        }
    }
}
