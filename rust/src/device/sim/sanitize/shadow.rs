//! One bit for each byte of device memory: whether anything wrote it. Pages that nothing wrote take no room.

use super::area::Area;
use std::collections::HashMap;

/// Bytes of a page.
const PAGE: usize = 4096;
const WORDS: usize = PAGE / 64;

/// Which bytes were written.
#[derive(Default)]
pub struct Shadow {
    pages: HashMap<usize, Box<[u64; WORDS]>>,
}

impl Shadow {
    /// These bytes were written.
    pub fn written(&mut self, at: usize, bytes: usize) {
        each_page(at, bytes, |page, from, to| {
            let words = self.pages.entry(page).or_insert_with(|| Box::new([0; WORDS]));
            each_word(from, to, |word, mask| {
                words[word] |= mask;
                true
            });
        });
    }

    /// Nobody has written these bytes.
    pub fn forget(&mut self, at: usize, bytes: usize) {
        each_page(at, bytes, |page, from, to| {
            if (from, to) == (0, PAGE) {
                self.pages.remove(&page);
            } else if let Some(words) = self.pages.get_mut(&page) {
                each_word(from, to, |word, mask| {
                    words[word] &= !mask;
                    true
                });
            }
        });
    }

    /// The first of these bytes that nobody wrote.
    pub fn unwritten(&self, at: usize, bytes: usize) -> Option<usize> {
        let mut first = None;
        each_page(at, bytes, |page, from, to| {
            if first.is_some() {
                return;
            }
            let Some(words) = self.pages.get(&page) else {
                first = Some(page * PAGE + from);
                return;
            };
            each_word(from, to, |word, mask| {
                let missing = !words[word] & mask;
                if missing != 0 {
                    first = Some(page * PAGE + word * 64 + missing.trailing_zeros() as usize);
                }
                missing == 0
            });
        });
        first
    }

    /// The area was written.
    pub fn write(&mut self, area: &Area) {
        area.runs(|at, bytes| {
            self.written(at, bytes);
            true
        });
    }

    /// The first byte of the area that nobody wrote.
    pub fn hole(&self, area: &Area) -> Option<usize> {
        let mut first = None;
        area.runs(|at, bytes| {
            first = self.unwritten(at, bytes);
            first.is_none()
        });
        first
    }
}

/// Pages of a range, each with the part of it that lies in the range.
fn each_page(at: usize, bytes: usize, mut each: impl FnMut(usize, usize, usize)) {
    let end = at + bytes;
    let mut from = at;
    while from < end {
        let page = from / PAGE;
        let to = end.min((page + 1) * PAGE);
        each(page, from - page * PAGE, to - page * PAGE);
        from = to;
    }
}

/// Words of a part of a page, each with the bits of it, until `each` says `false`.
fn each_word(from: usize, to: usize, mut each: impl FnMut(usize, u64) -> bool) {
    let mut at = from;
    while at < to {
        let (word, bit) = (at / 64, at % 64);
        let bits = (64 - bit).min(to - at);
        let mask = (u64::MAX >> (64 - bits)) << bit;
        if !each(word, mask) {
            return;
        }
        at += bits;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_shadow_knows_every_byte_like_a_plain_array(
            steps in prop::collection::vec((0usize..3, 0usize..20_000, 0usize..9000), 1..40)
        ) {
            let mut shadow = Shadow::default();
            let mut plain = vec![false; 30_000];
            for (what, at, bytes) in steps {
                let range = at..at + bytes;
                match what {
                    0 => {
                        shadow.written(at, bytes);
                        plain[range].fill(true);
                    }
                    1 => {
                        shadow.forget(at, bytes);
                        plain[range].fill(false);
                    }
                    _ => {
                        let expected = range.clone().find(|&byte| !plain[byte]);
                        prop_assert_eq!(shadow.unwritten(at, bytes), expected);
                    }
                }
            }
        }
    }
}
