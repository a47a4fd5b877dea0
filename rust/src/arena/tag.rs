//! Tags: what the user's memory is for, with budgets and high-water marks.

use super::buffer::Buffer;
use super::report::Bytes;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A purpose that the user named. The counts change under the lock of the worker; anybody reads them.
#[derive(Debug)]
pub struct Tag {
    name: String,
    live: AtomicU64,
    peak: AtomicU64,
}

/// What a tag had at one moment, in bytes.
#[derive(Clone, Debug)]
pub struct TagUse {
    /// What the user calls it.
    pub name: String,
    /// Of its live buffers.
    pub live: u64,
    /// The largest value that `live` had until then.
    pub peak: u64,
}

impl Tag {
    pub(super) fn new(name: String) -> Self {
        Self { name, live: AtomicU64::new(0), peak: AtomicU64::new(0) }
    }

    /// What the user calls it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes of its live buffers.
    pub fn live(&self) -> u64 {
        self.live.load(Ordering::Relaxed)
    }

    /// The largest value that `live` ever had.
    pub fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }

    pub(super) fn now(&self) -> TagUse {
        TagUse { name: self.name.clone(), live: self.live(), peak: self.peak() }
    }
}

/// A part of the program whose allocations count for a tag, and for those of the scopes around it.
#[derive(Debug)]
pub struct Scope {
    /// What they count for.
    pub tag: Arc<Tag>,
    /// The most bytes that the tag may have when something is allocated in this scope.
    pub budget: Option<u64>,
    /// The scope around this one.
    pub outer: Option<Arc<Scope>>,
}

impl Scope {
    fn outward(&self) -> impl Iterator<Item = &Scope> {
        std::iter::successors(Some(self), |scope| scope.outer.as_deref())
    }

    /// Each tag once, also where a scope stands within one of the same tag.
    fn tags(&self) -> impl Iterator<Item = &Arc<Tag>> {
        self.outward().enumerate().filter_map(|(depth, scope)| {
            let seen = self.outward().take(depth).any(|inner| Arc::ptr_eq(&inner.tag, &scope.tag));
            (!seen).then_some(&scope.tag)
        })
    }

    /// Whether a buffer of this scope counts for the tag.
    pub(super) fn counts_for(&self, tag: &Arc<Tag>) -> bool {
        self.outward().any(|scope| Arc::ptr_eq(&scope.tag, tag))
    }

    /// The innermost scope whose budget has no room for `bytes` more.
    pub(super) fn without_room(&self, bytes: u64) -> Option<(&Scope, u64)> {
        self.outward().find_map(|scope| {
            let budget = scope.budget?;
            (scope.tag.live().saturating_add(bytes) > budget).then_some((scope, budget))
        })
    }

    pub(super) fn add(&self, bytes: u64) {
        for tag in self.tags() {
            let live = tag.live() + bytes;
            tag.live.store(live, Ordering::Relaxed);
            tag.peak.fetch_max(live, Ordering::Relaxed);
        }
    }

    pub(super) fn remove(&self, bytes: u64) {
        for tag in self.tags() {
            tag.live.store(tag.live() - bytes, Ordering::Relaxed);
        }
    }
}

/// The lines of the user's source that hold the memory of a tag, in a message.
#[derive(Debug)]
pub struct Holders(pub Vec<Arc<Buffer>>);

/// How many buffers a message lists.
const LISTED: usize = 8;

impl fmt::Display for Holders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for buffer in self.0.iter().take(LISTED) {
            write!(f, "\n  {buffer}")?;
        }
        match self.0.get(LISTED..) {
            Some(more @ [_, ..]) => {
                let bytes = more.iter().map(|buffer| buffer.bytes()).sum();
                write!(f, "\n  and {} smaller ones, {}", more.len(), Bytes(bytes))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(tag: &Arc<Tag>, budget: Option<u64>, outer: Option<&Arc<Scope>>) -> Arc<Scope> {
        Arc::new(Scope { tag: tag.clone(), budget, outer: outer.cloned() })
    }

    #[test]
    fn a_scope_counts_for_each_tag_around_it_once() {
        let (model, cache) = (Arc::new(Tag::new("model".into())), Arc::new(Tag::new("cache".into())));
        let outer = scope(&model, Some(100), None);
        let inner = scope(&model, None, Some(&scope(&cache, Some(50), Some(&outer))));
        inner.add(40);
        assert_eq!((model.live(), cache.live()), (40, 40));
        assert!(inner.without_room(10).is_none());
        assert_eq!(inner.without_room(11).map(|(scope, budget)| (scope.tag.name(), budget)), Some(("cache", 50)));
        outer.add(60);
        assert_eq!(inner.without_room(1).map(|(scope, _)| scope.tag.name()), Some("model"));
        inner.remove(40);
        assert_eq!((model.live(), model.peak(), cache.live(), cache.peak()), (60, 100, 0, 40));
        assert!(inner.counts_for(&cache) && !outer.counts_for(&cache));
    }
}
