//! Device addresses: handed out once in the life of the process, so that an old one is always recognised.
//!
//! A worker leases a range of the address space and hands out addresses from it, upward. The ranges of all workers are kept
//! for ever (24 bytes for each 64 GiB), so that an address tells which worker it came from even after that worker is gone,
//! without asking it (it may be in a long launch). The lock of the directory is taken once per lease and by errors. One
//! atomic counter for single addresses would do without the lock, but could not say whose an address is.

use super::error::ArenaError;
use super::owner::Owner;
use super::suballocator::GRANULE;
use crate::id::DeviceAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// The first device address. No host pointer lies this high, so neither can pass for the other.
const FIRST: u64 = 1 << 48;
/// Addresses stay positive as signed 64-bit integers.
const END: u64 = 1 << 63;
/// The size of a lease, unless one allocation needs more.
const LEASE: u64 = 64 << 30;
/// Distance from the end of an allocation to the next address: one past the end is the address of nothing.
const GAP: u64 = GRANULE;

static SPACE: Mutex<Space> = Mutex::new(Space::new());

/// The directory of leases.
#[derive(Debug)]
struct Space {
    next: u64,
    /// First address and owner of each lease, ascending; each ends where the next begins.
    leases: Vec<(u64, Arc<Owner>)>,
}

impl Space {
    const fn new() -> Self {
        Self { next: FIRST, leases: Vec::new() }
    }

    fn lease(&mut self, owner: &Arc<Owner>, bytes: u64) -> Option<Lease> {
        let next = self.next;
        let end = next.checked_add(bytes.max(LEASE)).filter(|&end| end <= END)?;
        self.next = end;
        if !self.leases.last().is_some_and(|(_, last)| Arc::ptr_eq(last, owner)) {
            self.leases.push((next, owner.clone()));
        }
        Some(Lease { next, end })
    }

    fn owner_of(&self, addr: DeviceAddr) -> Option<Arc<Owner>> {
        if addr.0 >= self.next {
            return None;
        }
        let after = self.leases.partition_point(|(first, _)| *first <= addr.0);
        after.checked_sub(1).map(|lease| self.leases[lease].1.clone())
    }
}

/// The worker that leased the range of this address, closed or not.
pub fn owner_of(addr: DeviceAddr) -> Option<Arc<Owner>> {
    SPACE.lock().unwrap_or_else(PoisonError::into_inner).owner_of(addr)
}

/// Addresses that one worker may hand out.
#[derive(Debug, Default)]
pub struct Lease {
    next: u64,
    end: u64,
}

impl Lease {
    /// The address of `bytes` bytes. Addresses of one lease holder ascend.
    pub fn hand_out(&mut self, owner: &Arc<Owner>, bytes: u64) -> Result<DeviceAddr, ArenaError> {
        let length = bytes.checked_next_multiple_of(GRANULE).and_then(|bytes| bytes.checked_add(GAP));
        let length = length.ok_or(ArenaError::AddressesExhausted)?;
        if self.end - self.next < length {
            let lease = SPACE.lock().unwrap_or_else(PoisonError::into_inner).lease(owner, length);
            *self = lease.ok_or(ArenaError::AddressesExhausted)?;
        }
        let addr = DeviceAddr(self.next);
        self.next += length;
        Ok(addr)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_tell_who_handed_them_out() {
        let (first, second) = (Arc::new(Owner::new(None)), Arc::new(Owner::new(None)));
        let (mut a, mut b) = (Lease::default(), Lease::default());
        for _ in 0..3 {
            let of_first = a.hand_out(&first, LEASE / 2).unwrap();
            let of_second = b.hand_out(&second, 2 * LEASE).unwrap();
            assert_eq!(owner_of(of_first).unwrap().id(), first.id());
            assert_eq!(owner_of(of_second).unwrap().id(), second.id());
            assert_eq!(owner_of(DeviceAddr(of_second.0 + 2 * LEASE - 1)).unwrap().id(), second.id());
        }
        assert!(owner_of(DeviceAddr(0x7fff_0000_0000)).is_none(), "a host pointer belongs to no worker");
    }

    #[test]
    fn one_past_the_end_is_the_address_of_nothing() {
        let owner = Arc::new(Owner::new(None));
        let mut lease = Lease::default();
        let first = lease.hand_out(&owner, GRANULE).unwrap();
        let second = lease.hand_out(&owner, 1).unwrap();
        assert!(second.0 > first.0 + GRANULE);
    }

    #[test]
    fn an_exhausted_space_refuses_and_stays_usable() {
        let owner = Arc::new(Owner::new(None));
        let mut space = Space::new();
        assert!(space.lease(&owner, END - FIRST + 1).is_none());
        assert!(space.lease(&owner, END - FIRST).is_some());
        assert!(space.lease(&owner, 1).is_none());
        assert!(Lease::default().hand_out(&owner, u64::MAX).is_err());
    }
}
