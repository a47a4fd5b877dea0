//! The user's memory: allocate, free, copy.

use super::fake::*;
use crate::dtype::DType;
use crate::error::ErrorKind;
use crate::id::DeviceAddr;
use crate::worker::FreeOutcome;

#[test]
fn a_second_free_of_a_tensor_is_no_error_and_of_an_address_is_one() {
    let worker = Fake::adding().open();
    let tensor = upload(&worker, &[1; 4]);
    assert_eq!(worker.free(&tensor).unwrap(), FreeOutcome::Freed);
    assert_eq!(worker.free(&tensor).unwrap(), FreeOutcome::AlreadyFreed);
    let addr = worker.malloc(100, None).unwrap();
    worker.free_raw(addr).unwrap();
    let error = worker.free_raw(addr).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Value);
    assert!(error.to_string().contains("allocation base"), "{error}");
    assert_eq!(worker.malloc(0, None).unwrap_err().to_string().find("nbytes must be a positive int"), Some(0));
}

#[test]
fn a_live_buffer_of_another_worker_is_not_freed() {
    let (mine, theirs) = (Fake::adding().open(), Fake::adding().open());
    let buffer = upload(&theirs, &[1; 4]);
    let error = mine.free(&buffer).unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::Value, "foreign_buffer"));
    assert!(error.to_string().contains(&theirs.owner().to_string()), "{error}");
    assert_eq!(theirs.free(&buffer).unwrap(), FreeOutcome::Freed);
    assert_eq!(mine.free(&buffer).unwrap(), FreeOutcome::AlreadyFreed);
}

#[test]
fn an_address_never_comes_back() {
    let worker = Fake::adding().open();
    let first = upload(&worker, &[1; 4]);
    worker.free(&first).unwrap();
    for _ in 0..100 {
        let next = upload(&worker, &[9; 4]);
        assert!(next.addr() > first.addr());
        worker.free(&next).unwrap();
    }
    assert_eq!(worker.find(first.addr()).unwrap_err().code(), "freed_address");
}

#[test]
fn copies_take_any_part_of_one_allocation() {
    let worker = Fake::adding().open();
    let buffer = upload(&worker, &[0, 1, 2, 3, 4, 5, 6, 7]);
    let at = |offset| DeviceAddr(buffer.addr().0 + offset);
    let mut part = [0; 3];
    // SAFETY: three bytes.
    unsafe { worker.copy_from(part.as_mut_ptr(), at(2), 3) }.unwrap();
    assert_eq!(part, [2, 3, 4]);
    // SAFETY: three bytes.
    unsafe { worker.copy_to(at(5), part.as_ptr(), 3) }.unwrap();
    assert_eq!(download(&worker, &buffer), [0, 1, 2, 3, 4, 2, 3, 4]);
    // SAFETY: refused before anything is copied.
    let error = unsafe { worker.copy_to(at(6), part.as_ptr(), 3) }.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Value);
    assert!(error.to_string().contains("an access of 3 bytes at offset 6 exceeds the 8-byte backing"), "{error}");
    // SAFETY: as above.
    assert_eq!(unsafe { worker.copy_from(part.as_mut_ptr(), at(8), 1) }.unwrap_err().code(), "unknown_address");
    let (found, offset) = worker.find(at(7)).unwrap();
    assert_eq!((found.addr(), offset), (buffer.addr(), 7));
}

#[test]
fn new_memory_never_shows_the_bytes_of_another_tensor() {
    for (poison, expected) in [(false, 0), (true, 0xff)] {
        let worker = Fake::adding().open_with(1 << 16, poison);
        let old = upload(&worker, &[7; 1000]);
        worker.free(&old).unwrap();
        let new = worker.allocate(spec(&[1000], DType::U8)).unwrap();
        assert_eq!(download(&worker, &new), [expected; 1000]);
        worker.free(&new).unwrap();
        let addr = worker.malloc(1000, None).unwrap();
        // SAFETY: one byte.
        unsafe { worker.copy_to(DeviceAddr(addr.0 + 10), [1u8].as_ptr(), 1) }.unwrap();
        let (raw, _) = worker.find(addr).unwrap();
        let mut bytes = vec![expected; 1000];
        bytes[10] = 1;
        assert_eq!(download(&worker, &raw), bytes);
    }
}

/// A piece is 128 MiB: the only copies that end half-way on a device which does not fail.
#[test]
fn a_copy_that_was_interrupted_shows_its_first_part_and_nothing_of_an_earlier_tensor() {
    const PIECE: usize = 128 << 20;
    let worker = Fake::adding().open_with(1 << 30, false);
    let data = vec![7; PIECE + 1000];
    let old = upload(&worker, &data);
    worker.free(&old).unwrap();
    let new = worker.allocate(spec(&[data.len() as u64], DType::U8)).unwrap();
    let mut session = worker.enter("copy_to").unwrap();
    // SAFETY: the buffer is as large as the data.
    let copied = unsafe { session.copy_to(new.addr(), vec![9; data.len()].as_ptr(), new.bytes(), &mut || false) };
    drop(session);
    assert_eq!(copied.unwrap_err().kind(), ErrorKind::Interrupted);
    let held = download(&worker, &new);
    assert!(held[..PIECE].iter().all(|&byte| byte == 9));
    assert!(held[PIECE..].iter().all(|&byte| byte == 0));
}

#[test]
fn exhaustion_leaves_everything_as_it_was() {
    let worker = Fake::adding().open_with(1 << 16, false);
    let keep = upload(&worker, &[5; 1000]);
    let before = worker.memory_report();
    for _ in 0..1000 {
        let error = worker.allocate(spec(&[1 << 16], DType::U8)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Memory);
    }
    assert_eq!(worker.memory_report().free, before.free);
    let rest = worker.allocate(spec(&[before.largest_free], DType::U8)).unwrap();
    assert_eq!(worker.memory_report().free, 0);
    assert_eq!(download(&worker, &keep), [5; 1000]);
    worker.free(&rest).unwrap();
}
