//! Device addresses: handed out once in the life of the process, so that an old one is always recognised.
//!
//! A worker leases a range of the address space and hands out addresses from it, upward. The ranges of all workers are kept
//! for ever (32 bytes for each 64 GiB), so that an address tells which worker it came from even after that worker is gone,
//! and, while the worker lives, what it allocated there. The worker itself is not asked for it (it may be in a long
//! launch). The lock of the directory is taken once per lease and by errors. One atomic counter for single addresses would
//! do without the lock, but could not say whose an address is.

use super::error::ArenaError;
use super::index::Index;
use super::owner::Owner;
use super::suballocator::GRANULE;
use crate::id::DeviceAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The first device address. No host pointer lies this high, so neither can pass for the other.
const FIRST: u64 = 1 << 48;
/// Addresses stay positive as signed 64-bit integers.
const END: u64 = 1 << 63;
/// The size of a lease, unless one allocation needs more.
const LEASE: u64 = 64 << 30;
/// Distance from the end of an allocation to the next address: one past the end is the address of nothing.
const GAP: u64 = GRANULE;

/// Whether it is an address that some worker may hand out, not one of host memory.
pub fn is_device_address(addr: u64) -> bool {
    (FIRST..END).contains(&addr)
}

/// How much of the address space an allocation of `bytes` bytes takes, gap included.
pub fn span_of(bytes: u64) -> Option<u64> {
    bytes.checked_next_multiple_of(GRANULE).and_then(|bytes| bytes.checked_add(GAP))
}

static SPACE: Mutex<Space> = Mutex::new(Space::new());

/// The directory of leases.
#[derive(Debug)]
struct Space {
    next: u64,
    /// Each lease, ascending; it ends where the next begins.
    leases: Vec<Leased>,
}

#[derive(Debug)]
struct Leased {
    first: u64,
    holder: Holder,
}

/// Who leased a range of addresses, and what lies in it.
#[derive(Clone, Debug)]
pub struct Holder {
    /// The worker, closed or not.
    pub owner: Arc<Owner>,
    /// Its allocations, while it is open.
    pub index: Weak<Index>,
}

impl Space {
    const fn new() -> Self {
        Self { next: FIRST, leases: Vec::new() }
    }

    /// Leases at least `bytes` bytes of addresses; gives the first and the end.
    fn lease(&mut self, holder: &Holder, bytes: u64) -> Option<(u64, u64)> {
        let first = self.next;
        let end = first.checked_add(bytes.max(LEASE)).filter(|&end| end <= END)?;
        self.next = end;
        if !self.leases.last().is_some_and(|last| Arc::ptr_eq(&last.holder.owner, &holder.owner)) {
            self.leases.push(Leased { first, holder: holder.clone() });
        }
        Some((first, end))
    }

    fn holder_of(&self, addr: DeviceAddr) -> Option<Holder> {
        if addr.0 >= self.next {
            return None;
        }
        let after = self.leases.partition_point(|lease| lease.first <= addr.0);
        after.checked_sub(1).map(|lease| self.leases[lease].holder.clone())
    }
}

/// Who leased the range of this address.
pub fn holder_of(addr: DeviceAddr) -> Option<Holder> {
    SPACE.lock().unwrap_or_else(PoisonError::into_inner).holder_of(addr)
}

/// Addresses that one worker may hand out.
#[derive(Debug)]
pub struct Lease {
    holder: Holder,
    first: u64,
    next: u64,
    end: u64,
    /// The ends of earlier leases that were too short for what was wanted: nothing in them was ever handed out.
    skipped: Vec<(u64, u64)>,
}

impl Lease {
    /// Nothing yet; the first address takes a range.
    pub fn new(owner: Arc<Owner>, index: &Arc<Index>) -> Self {
        let holder = Holder { owner, index: Arc::downgrade(index) };
        Self { holder, first: 0, next: 0, end: 0, skipped: Vec::new() }
    }

    /// The address of `bytes` bytes. Addresses of one lease holder ascend.
    pub fn hand_out(&mut self, bytes: u64) -> Result<DeviceAddr, ArenaError> {
        let length = span_of(bytes).ok_or(ArenaError::AddressesExhausted)?;
        if self.end - self.next < length {
            let lease = SPACE.lock().unwrap_or_else(PoisonError::into_inner).lease(&self.holder, length);
            let (first, end) = lease.ok_or(ArenaError::AddressesExhausted)?;
            if self.next < self.end {
                self.skipped.push((self.next, self.end));
            }
            (self.first, self.next, self.end) = (first, first, end);
        }
        let addr = DeviceAddr(self.next);
        self.next += length;
        Ok(addr)
    }

    /// Whether this address, which lies in a range of this holder, was ever handed out.
    pub fn has_handed_out(&self, addr: DeviceAddr) -> bool {
        let DeviceAddr(addr) = addr;
        addr < self.next
            && (addr >= self.first || !self.skipped.iter().any(|&(first, end)| (first..end).contains(&addr)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease() -> Lease {
        Lease::new(Arc::new(Owner::new(None)), &Arc::default())
    }

    fn owner_of(addr: u64) -> Option<crate::id::WorkerId> {
        holder_of(DeviceAddr(addr)).map(|holder| holder.owner.id())
    }

    #[test]
    fn addresses_tell_who_handed_them_out() {
        let (mut a, mut b) = (lease(), lease());
        let (first, second) = (a.holder.owner.id(), b.holder.owner.id());
        for _ in 0..3 {
            let of_first = a.hand_out(LEASE / 2).unwrap();
            let of_second = b.hand_out(2 * LEASE).unwrap();
            assert_eq!(owner_of(of_first.0), Some(first));
            assert_eq!(owner_of(of_second.0), Some(second));
            assert_eq!(owner_of(of_second.0 + 2 * LEASE - 1), Some(second));
        }
        assert_eq!(owner_of(0x7fff_0000_0000), None, "a host pointer belongs to no worker");
    }

    #[test]
    fn one_past_the_end_is_the_address_of_nothing() {
        let mut lease = lease();
        let first = lease.hand_out(GRANULE).unwrap();
        let second = lease.hand_out(1).unwrap();
        assert!(second.0 > first.0 + GRANULE);
    }

    #[test]
    fn what_was_handed_out_is_told_from_what_never_was() {
        let mut lease = lease();
        let first = lease.hand_out(LEASE / 2).unwrap();
        let never = DeviceAddr(first.0 + LEASE / 2 + GAP);
        assert!(lease.has_handed_out(first));
        assert!(!lease.has_handed_out(never));
        // Too large for what is left of the first range, which is skipped for ever.
        let second = lease.hand_out(LEASE).unwrap();
        assert!(lease.has_handed_out(first) && lease.has_handed_out(second));
        assert!(!lease.has_handed_out(never));
        assert!(!lease.has_handed_out(DeviceAddr(second.0 + LEASE + GAP)));
    }

    #[test]
    fn an_exhausted_space_refuses_and_stays_usable() {
        let holder = lease().holder;
        let mut space = Space::new();
        assert!(space.lease(&holder, END - FIRST + 1).is_none());
        assert!(space.lease(&holder, END - FIRST).is_some());
        assert!(space.lease(&holder, 1).is_none());
        assert!(lease().hand_out(u64::MAX).is_err());
    }
}
