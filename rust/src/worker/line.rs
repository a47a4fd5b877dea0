//! The line of those who wait for something that one of them has at a time, served in the order in which they came.
//!
//! Nobody passes the line: a thread that came back at once, in a loop, would otherwise be in again before a sleeping one
//! is awake, for ever. A place can be taken long before it is used, and by one thread for another: that is how queued
//! launches keep their order among all other calls.
//!
//! It knows nothing of what is waited for. Whoever is first tries to get in, and whoever leaves tells the line.

use crate::sync::{AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, fence, lock, wait_timeout};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How often somebody who waits looks whether to go on waiting.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// A line, empty at first.
#[derive(Default)]
pub struct Line {
    /// How many stand in line, those who do not wait yet included.
    waiting: AtomicUsize,
    tickets: Mutex<Tickets>,
    left: Condvar,
}

/// Those in line, the next one first.
#[derive(Default)]
struct Tickets {
    inline: VecDeque<u64>,
    last: u64,
}

/// A place in a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a place that is neither used nor left holds up everybody behind it"]
pub struct Ticket(u64);

impl Line {
    /// Whether nobody stands in line, so that one may try to get in without a ticket.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) == 0
    }

    /// Takes the last place.
    pub fn join(&self) -> Ticket {
        let mut tickets = self.tickets();
        tickets.last += 1;
        let ticket = tickets.last;
        tickets.inline.push_back(ticket);
        self.count(&tickets);
        Ticket(ticket)
    }

    /// Gives a place up.
    pub fn leave(&self, ticket: Ticket) {
        self.forget(ticket);
        // Whoever is next may have become the first.
        self.left.notify_all();
    }

    /// Waits until it is the turn of `ticket` and `enter` gets in; the place is gone when this returns. `look` is asked
    /// every 50 ms and whenever somebody left.
    ///
    /// # Errors
    /// Those of `enter` and of `look`, which end the wait.
    pub fn wait<T, E>(
        &self,
        ticket: Ticket,
        mut enter: impl FnMut() -> Result<Option<T>, E>,
        mut look: impl FnMut() -> Result<(), E>,
    ) -> Result<T, E> {
        let mut turn = || {
            loop {
                {
                    let tickets = self.tickets();
                    // Tried under the lock: whoever leaves after this try takes it to wake us, so the wake-up cannot fall
                    // between the try and the wait.
                    if tickets.inline.front() == Some(&ticket.0)
                        && let Some(entered) = enter()?
                    {
                        return Ok(entered);
                    }
                    drop(wait_timeout(&self.left, &self.tickets, tickets, LOOK_INTERVAL));
                }
                // Outside of the lock: it may wait for a thread that is about to leave and wants the lock.
                look()?;
            }
        };
        let outcome = turn();
        match outcome {
            // Whoever is next gets in when this one leaves.
            Ok(_) => self.forget(ticket),
            Err(_) => self.leave(ticket),
        }
        outcome
    }

    /// Whoever was in is out: the first in line may try.
    #[inline]
    pub fn next(&self) {
        // Orders what made room before the look at `waiting`; pairs with the fence in `count`.
        fence(Ordering::SeqCst);
        if !self.is_empty() {
            drop(self.tickets());
            self.left.notify_all();
        }
    }

    /// Waits until nobody stands in line, at most this long, and wakes them all the time.
    pub fn settle(&self, limit: Duration) {
        let end = Instant::now() + limit;
        while !self.is_empty() && Instant::now() < end {
            drop(self.tickets());
            self.left.notify_all();
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn tickets(&self) -> MutexGuard<'_, Tickets> {
        lock(&self.tickets)
    }

    fn forget(&self, ticket: Ticket) {
        let mut tickets = self.tickets();
        tickets.inline.retain(|&other| other != ticket.0);
        self.count(&tickets);
    }

    fn count(&self, tickets: &Tickets) {
        self.waiting.store(tickets.inline.len(), Ordering::Relaxed);
        // Orders the count before the try to get in; pairs with the fence in `next`: either whoever leaves sees that
        // somebody waits, or whoever waits sees that there is room.
        fence(Ordering::SeqCst);
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::sync::{Arc, AtomicBool, UnsafeCell, thread};
    use std::convert::Infallible;

    /// What is waited for: a lock that is only tried, and a cell under it whose accesses loom checks. Loom does not switch
    /// threads at a try of its own `Mutex`, so the lock is an atomic here.
    struct Place {
        line: Line,
        taken: AtomicBool,
        visits: UnsafeCell<Vec<usize>>,
    }

    #[expect(unsafe_code, reason = "loom checks that no two threads access the cell at once")]
    // SAFETY: see the reason.
    unsafe impl Sync for Place {}

    impl Place {
        fn new() -> Arc<Self> {
            let (line, taken) = (Line::default(), AtomicBool::new(false));
            Arc::new(Self { line, taken, visits: UnsafeCell::new(Vec::new()) })
        }

        fn try_enter(&self) -> Option<()> {
            let taken = self.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
            taken.ok().map(drop)
        }

        fn visit(&self, ticket: Ticket, who: usize) {
            let Ok(()) = self.line.wait(ticket, || Ok::<_, Infallible>(self.try_enter()), || Ok(()));
            self.note(who);
        }

        /// As a call without a place does it: tries, and joins the line only where that fails.
        fn call(&self, who: usize) {
            if self.line.is_empty() && self.try_enter().is_some() {
                return self.note(who);
            }
            self.visit(self.line.join(), who);
        }

        #[expect(unsafe_code, reason = "loom checks that nobody else accesses the cell")]
        fn note(&self, who: usize) {
            // SAFETY: the lock keeps others out, which is what the model checks.
            self.visits.with_mut(|visits| unsafe { (*visits).push(who) });
            self.taken.store(false, Ordering::Release);
            self.line.next();
        }

        #[expect(unsafe_code, reason = "as above")]
        fn visits(&self) -> Vec<usize> {
            self.try_enter().expect("all left");
            // SAFETY: as above.
            self.visits.with(|visits| unsafe { (*visits).clone() })
        }
    }

    /// Loom has no time: a wake-up that is missed is a deadlock, which it reports.
    #[test]
    fn loom_whoever_waits_is_woken_by_whoever_leaves() {
        loom::model(|| {
            let place = Place::new();
            let other = place.clone();
            let caller = thread::spawn(move || other.call(1));
            place.call(0);
            caller.join().unwrap();
            assert_eq!(place.visits().len(), 2);
            assert!(place.line.is_empty());
        });
    }

    #[test]
    fn loom_places_that_were_taken_are_served_in_order_whatever_else_is_called() {
        loom::model(|| {
            let place = Place::new();
            let (first, second) = (place.line.join(), place.line.join());
            let other = place.clone();
            let server = thread::spawn(move || {
                other.visit(first, 0);
                other.visit(second, 1);
            });
            place.call(2);
            server.join().unwrap();
            assert_eq!(place.visits(), [0, 1, 2]);
        });
    }

    #[test]
    fn loom_a_place_that_is_given_up_holds_up_nobody() {
        loom::model(|| {
            let place = Place::new();
            let (first, second) = (place.line.join(), place.line.join());
            let other = place.clone();
            let waiter = thread::spawn(move || other.visit(second, 1));
            place.line.leave(first);
            waiter.join().unwrap();
            assert_eq!(place.visits(), [1]);
            assert!(place.line.is_empty());
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::thread;

    type Entered<'a> = MutexGuard<'a, Vec<(usize, u32)>>;

    /// A line before a lock, and what each visit wrote there.
    #[derive(Default)]
    struct Place {
        line: Line,
        visits: Mutex<Vec<(usize, u32)>>,
    }

    impl Place {
        fn try_enter(&self) -> Result<Option<Entered<'_>>, &'static str> {
            Ok(self.visits.try_lock().ok())
        }

        fn visit(&self, ticket: Ticket, visit: (usize, u32)) {
            let mut visits = self.line.wait(ticket, || self.try_enter(), || Ok(())).unwrap();
            visits.push(visit);
            drop(visits);
            self.line.next();
        }

        fn call(&self, visit: (usize, u32)) {
            if self.line.is_empty()
                && let Some(mut visits) = self.try_enter().unwrap()
            {
                visits.push(visit);
                drop(visits);
                return self.line.next();
            }
            self.visit(self.line.join(), visit);
        }
    }

    #[test]
    fn threads_that_call_again_and_again_all_get_in_and_the_line_is_empty_after() {
        const EACH: u32 = 2000;
        let place = Place::default();
        thread::scope(|scope| {
            for thread in 0..4 {
                let place = &place;
                scope.spawn(move || (0..EACH).for_each(|turn| place.call((thread, turn))));
            }
        });
        let visits = lock(&place.visits);
        for thread in 0..4 {
            let turns = visits.iter().filter(|(who, _)| *who == thread).map(|(_, turn)| *turn);
            assert!(turns.eq(0..EACH), "visits of thread {thread} are missing or out of order");
        }
        assert!(place.line.is_empty());
    }

    #[test]
    fn places_are_served_in_the_order_in_which_they_were_taken_whoever_uses_them() {
        let place = Place::default();
        let mut tickets: Vec<_> = (0..64).map(|turn| (turn, place.line.join())).collect();
        fastrand::Rng::with_seed(1).shuffle(&mut tickets);
        thread::scope(|scope| {
            for (turn, ticket) in tickets {
                let place = &place;
                scope.spawn(move || place.visit(ticket, (0, turn)));
            }
            scope.spawn(|| place.call((1, 64)));
        });
        let turns: Vec<_> = lock(&place.visits).iter().map(|(_, turn)| *turn).collect();
        assert_eq!(turns, (0..=64).collect::<Vec<_>>());
    }

    #[test]
    fn an_error_ends_the_wait_and_gives_the_place_up() {
        let line = Line::default();
        let (first, second) = (line.join(), line.join());
        assert_eq!(line.wait(first, || Err::<Option<()>, _>("closed"), || Ok(())), Err("closed"));
        assert_eq!(line.wait(second, || Ok::<Option<()>, _>(None), || Err("interrupted")), Err("interrupted"));
        assert!(line.is_empty());
        let third = line.join();
        assert_eq!(line.wait(third, || Ok::<_, ()>(Some(3)), || Ok(())), Ok(3));
    }

    #[test]
    fn settling_ends_at_its_limit_or_when_the_line_is_empty() {
        let line = Line::default();
        line.settle(Duration::from_secs(3600));
        let ticket = line.join();
        line.settle(Duration::from_millis(2));
        assert!(!line.is_empty());
        let left = AtomicBool::new(false);
        thread::scope(|scope| {
            let leaver = scope.spawn(|| {
                left.store(true, Ordering::SeqCst);
                line.leave(ticket);
            });
            line.settle(Duration::from_secs(3600));
            // ThreadSanitizer sees a join, but not how the end of a scope waits.
            leaver.join().unwrap();
        });
        assert!(left.load(Ordering::SeqCst) && line.is_empty());
    }
}
