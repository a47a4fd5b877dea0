//! The arena as its worker uses it.

use super::*;
use crate::error::ErrorKind;
use crate::id::DeviceAddr;
use proptest::prelude::*;

fn arena_of(capacity: u64, poison: bool) -> Arena {
    Arena::new(Arc::new(Owner::new(Some("test".into()))), capacity, poison).unwrap()
}

fn spec(dims: &[u64], dtype: DType) -> BufferSpec {
    BufferSpec {
        shape: Shape::new(dims).unwrap(),
        dtype,
        site: Some(Site { file: "model.py".into(), line: 12 }),
        scope: None,
    }
}

fn allocate(arena: &mut Arena, bytes: u64) -> Result<Arc<Buffer>, ArenaError> {
    arena.allocate(spec(&[bytes], DType::U8), Contents::Unwritten)
}

fn bytes_of<'a>(arena: &'a Arena, buffer: &Buffer) -> &'a [u8] {
    arena.storage.slice(buffer.block().offset * GRANULE, buffer.bytes())
}

/// What a kernel could do: writes `bytes` bytes at `offset` from the start of the buffer, in range or not.
fn scribble(arena: &mut Arena, buffer: &Buffer, offset: u64, bytes: u64) {
    arena.storage.fill(buffer.block().offset * GRANULE + offset, bytes, 0x77);
}

#[test]
fn out_of_memory_gives_the_numbers_and_a_remedy_and_changes_nothing() {
    let mut arena = arena_of(64 << 10, false);
    let first = allocate(&mut arena, 16 << 10).unwrap();
    let _second = allocate(&mut arena, 16 << 10).unwrap();
    arena.free(&first).unwrap();
    let before = arena.report();
    let error = allocate(&mut arena, 40 << 10).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Memory);
    let text = error.to_string();
    for part in [
        "requested 40960 bytes (40 KiB)",
        "live 16384 bytes",
        "free 49152 bytes (48 KiB)",
        "largest free block 32768 bytes (32 KiB)",
        "capacity 65536 bytes",
        "(test)",
        "RunConfig(device_memory=...)",
        "free_tensor()",
    ] {
        assert!(text.contains(part), "{part:?} is missing in {text}");
    }
    assert_eq!(format!("{before:?}"), format!("{:?}", arena.report()));
    assert!(allocate(&mut arena, 32 << 10).is_ok(), "what the error calls the largest block can be had");
}

#[test]
fn freed_memory_is_found_again_whatever_the_order() {
    let mut arena = arena_of(64 << 10, false);
    let a = allocate(&mut arena, 48 << 10).unwrap();
    let b = allocate(&mut arena, 16 << 10).unwrap();
    arena.free(&a).unwrap();
    let a = allocate(&mut arena, 48 << 10).unwrap();
    arena.free(&b).unwrap();
    arena.free(&a).unwrap();
    assert!(allocate(&mut arena, 64 << 10).is_ok());
}

#[test]
fn sizes_that_make_no_sense_are_refused() {
    let owner = || Arc::new(Owner::new(None));
    assert_eq!(Arena::new(owner(), 0, false).unwrap_err().kind(), ErrorKind::Value);
    assert_eq!(Arena::new(owner(), u64::MAX, false).unwrap_err().kind(), ErrorKind::Memory);
    let mut arena = arena_of(1, false);
    assert_eq!(arena.report().capacity, GRANULE);
    assert_eq!(allocate(&mut arena, 0).unwrap_err().kind(), ErrorKind::Value);
    let huge = arena.allocate(spec(&[1 << 62, 8], DType::F32), Contents::Unwritten).unwrap_err();
    assert_eq!(huge.kind(), ErrorKind::Memory);
    assert_eq!(huge.to_string(), "an FP32 tensor of shape (4611686018427387904, 8) needs more bytes than fit 64 bits");
    assert_eq!(arena.allocate_raw(u64::MAX, None, None).unwrap_err().kind(), ErrorKind::Memory);
}

#[test]
fn each_kind_of_wrong_address_has_its_own_error() {
    let mut arena = arena_of(1 << 20, false);
    let mut other = Arena::new(Arc::new(Owner::new(Some("other".into()))), 1 << 20, false).unwrap();
    let live = arena.allocate(spec(&[16, 16], DType::F32), Contents::Unwritten).unwrap();
    let freed = arena.allocate(spec(&[3, 5], DType::F16), Contents::Unwritten).unwrap();
    arena.free(&freed).unwrap();
    let foreign = allocate(&mut other, 100).unwrap();
    let at = |buffer: &Buffer, offset| DeviceAddr(buffer.addr().0 + offset);

    let (found, offset) = arena.find(at(&live, 1023)).unwrap();
    assert!(Arc::ptr_eq(&found, &live) && offset == 1023);
    let text = |result: Result<Arc<Buffer>, ArenaError>| {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Value);
        assert!(error.to_string().contains("allocation base"), "{error}");
        (error.code(), error.to_string())
    };
    let (code, interior) = text(arena.find_base(at(&live, 4)));
    assert_eq!(code, "interior_pointer");
    assert!(interior.contains("interior pointer"), "{interior}");
    assert!(interior.contains("4 bytes into FP32 (16, 16)") && interior.contains("model.py:12"), "{interior}");
    let (code, stale) = text(arena.find_base(at(&freed, 0)));
    assert_eq!(code, "freed_address");
    assert!(stale.contains("FP16 (3, 5)") && stale.contains("model.py:12") && stale.contains("was freed"), "{stale}");
    let (code, theirs) = text(arena.find_base(foreign.addr()));
    assert_eq!(code, "foreign_address");
    for part in ["(other)", "(test)", "it belongs to UINT8 (100,)", "allocated at model.py:12, of worker"] {
        assert!(theirs.contains(part), "{part:?} is missing in {theirs}");
    }
    for unknown in [DeviceAddr(0), DeviceAddr(u64::MAX), DeviceAddr(0x7fff_1234_5678), at(&freed, 1 << 30)] {
        let (code, never) = text(arena.find_base(unknown));
        assert_eq!(code, "unknown_address", "{unknown}");
        assert!(never.ends_with("it was never handed out"), "{never}");
    }
}

#[test]
fn an_address_of_another_worker_names_what_is_known_of_its_buffer() {
    let arena = arena_of(1 << 20, false);
    let mut other = Arena::new(Arc::new(Owner::new(Some("other".into()))), 1 << 20, false).unwrap();
    let buffer = other.allocate(spec(&[3, 5], DType::F16), Contents::Unwritten).unwrap();
    other.free(&buffer).unwrap();
    let text = || arena.find(buffer.addr()).unwrap_err().to_string();
    assert!(text().contains("FP16 (3, 5)") && text().contains(", which was freed, of worker"), "{}", text());
    drop(other);
    let owner = buffer.owner().to_string();
    assert!(text().contains(&format!("it belongs to {owner}. Only the worker")), "{}", text());
}

#[test]
fn the_gap_behind_a_buffer_is_nobodys() {
    let mut arena = arena_of(1 << 20, false);
    let buffer = arena.allocate(spec(&[16, 16], DType::F32), Contents::Unwritten).unwrap();
    let text = |arena: &Arena| {
        let error = arena.find(DeviceAddr(buffer.addr().0 + 1030)).unwrap_err();
        assert_eq!(error.code(), "unknown_address");
        error.to_string()
    };
    let live = text(&arena);
    assert!(live.contains("never handed out, it lies 6 bytes behind the end of FP32 (16, 16)"), "{live}");
    assert!(live.ends_with("allocated at model.py:12"), "{live}");
    arena.free(&buffer).unwrap();
    assert!(text(&arena).ends_with("allocated at model.py:12, which was freed"), "{}", text(&arena));
}

#[test]
fn an_access_must_end_inside_its_allocation() {
    let mut arena = arena_of(1 << 20, false);
    let buffer = allocate(&mut arena, 1000).unwrap();
    let at = |offset| DeviceAddr(buffer.addr().0 + offset);
    assert_eq!(arena.find_range(at(999), 1).unwrap().1, 999);
    assert!(arena.find_range(buffer.addr(), 1000).is_ok());
    for (offset, bytes) in [(0, 1001), (999, 2), (1, u64::MAX)] {
        let error = arena.find_range(at(offset), bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Value);
        assert!(error.to_string().contains("exceeds the 1000-byte backing"), "{error}");
    }
    assert_eq!(arena.find_range(buffer.addr(), 0).unwrap_err().code(), "zero_size");
}

#[test]
fn a_stale_address_is_recognised_after_thousands_of_allocations() {
    let mut arena = arena_of(1 << 20, false);
    let keep = allocate(&mut arena, 256).unwrap();
    let old = allocate(&mut arena, 256).unwrap();
    arena.free(&old).unwrap();
    let mut recent = Vec::new();
    for _ in 0..5000 {
        let buffer = allocate(&mut arena, 256).unwrap();
        arena.free(&buffer).unwrap();
        recent.push(buffer);
    }
    let forgotten = arena.find(old.addr()).unwrap_err();
    assert_eq!((forgotten.kind(), forgotten.code()), (ErrorKind::Value, "forgotten_address"));
    let text = forgotten.to_string();
    assert!(text.contains("is no longer an allocation base of worker") && text.contains("freed long ago"), "{text}");
    assert_eq!(arena.find(DeviceAddr(recent[4999].addr().0 + 4096)).unwrap_err().code(), "unknown_address");
    for buffer in recent.iter().rev().take(256) {
        assert_eq!(arena.find(buffer.addr()).unwrap_err().code(), "freed_address");
    }
    assert!(arena.find(keep.addr()).is_ok());
    assert_eq!(arena.report().count(), 1);
}

#[test]
fn reused_memory_shows_nothing_of_what_was_there() {
    let mut arena = arena_of(1 << 20, false);
    let old = allocate(&mut arena, 1000).unwrap();
    scribble(&mut arena, &old, 0, 1000);
    arena.free(&old).unwrap();
    let new = allocate(&mut arena, 2000).unwrap();
    assert_eq!(new.block().offset, old.block().offset, "warm memory is reused first");
    arena.clear_stale(&new);
    assert!(bytes_of(&arena, &new).iter().all(|&byte| byte == 0));
    scribble(&mut arena, &new, 0, 2000);
    arena.clear_stale(&new);
    assert!(bytes_of(&arena, &new).iter().all(|&byte| byte == 0x77), "clearing happens once");
}

#[test]
fn a_partial_first_write_clears_the_rest_and_a_whole_one_nothing() {
    let mut arena = arena_of(1 << 20, false);
    for (offset, bytes, left) in [(0, 10, 0), (500, 500, 0), (0, 1000, 0x77)] {
        let old = allocate(&mut arena, 1000).unwrap();
        scribble(&mut arena, &old, 0, 1000);
        arena.free(&old).unwrap();
        let new = allocate(&mut arena, 1000).unwrap();
        arena.prepare_write(&new, offset, bytes);
        assert_eq!(bytes_of(&arena, &new)[999], left);
        arena.free(&new).unwrap();
    }
}

#[test]
fn poison_fills_new_memory_and_finds_the_first_byte_behind_an_end() {
    let mut arena = arena_of(1 << 20, true);
    let buffer = arena.allocate(spec(&[10], DType::F32), Contents::Unwritten).unwrap();
    assert_eq!(bytes_of(&arena, &buffer), [FILL; 40]);
    scribble(&mut arena, &buffer, 0, 40);
    assert!(arena.check_guards(|| "now".into()).is_ok());
    for offset in [40, 255, 256, 511] {
        scribble(&mut arena, &buffer, offset, 1);
        let error = arena.check_guards(|| "found after a launch of 'k'".into()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Runtime);
        let expected = format!("the first bad byte is {offset} bytes from its base, {} behind its end", offset - 40);
        let text = error.to_string();
        assert!(text.starts_with("found after a launch of 'k'") && text.ends_with(&expected), "{text}");
        assert!(text.contains("FP32 (10,)") && text.contains("model.py:12"), "{text}");
        assert!(arena.check_guards(|| "again".into()).is_ok(), "a damage is reported once");
    }
    scribble(&mut arena, &buffer, 41, 1);
    assert!(arena.free(&buffer).unwrap_err().to_string().starts_with("found at free"));
    assert_eq!(buffer.state(), BufferState::Freed);
    assert_eq!(arena.report().free, 1 << 20);
}

#[test]
fn the_report_adds_up_and_lists_buffers_by_size() {
    let mut arena = arena_of(1 << 20, false);
    let small = arena.allocate(spec(&[2, 50], DType::F32), Contents::Unwritten).unwrap();
    let large = arena.allocate(spec(&[100, 100], DType::F16), Contents::Unwritten).unwrap();
    let raw = arena.allocate_raw(5000, None, None).unwrap();
    let chunk = arena.reserve(1000, Purpose::Staging).unwrap();
    arena.free(&raw).unwrap();
    let report = arena.report();
    assert_eq!((report.live, report.peak, report.count()), (20_400, 25_400, 2));
    assert_eq!((report.staging, report.scratch), (1024, 0));
    assert_eq!(report.free, (1 << 20) - 512 - 20_224 - 1024);
    assert_eq!(report.largest_free, report.free - 5120);
    assert!(report.fragmentation() > 0.0 && report.fragmentation() < 0.01);
    assert!(Arc::ptr_eq(&report.live_buffers[0], &large) && Arc::ptr_eq(&report.live_buffers[1], &small));
    let text = report.to_string();
    assert!(text.contains("FP16 (100, 100)") && text.contains("(19.5 KiB), allocated at model.py:12"), "{text}");
    assert!(format!("{report:.1}").ends_with("... and 1 smaller\n"), "{report:.1}");
    arena.release(chunk);
    assert_eq!(arena.report().staging, 0);
}

#[test]
fn memory_beyond_32_bits_is_addressed_right() {
    let mut arena = arena_of(16 << 30, false);
    let dims = [(1 << 32) + 32_768];
    let buffer = arena.allocate(spec(&dims, DType::U8), Contents::Unwritten).unwrap();
    let last = buffer.bytes() - 1;
    scribble(&mut arena, &buffer, last, 1);
    assert_eq!(bytes_of(&arena, &buffer)[last as usize], 0x77);
    assert_eq!(bytes_of(&arena, &buffer)[(last - (1 << 32)) as usize], 0);
    let report = arena.report();
    assert!(report.committed >= 1 && report.committed < 16 << 20, "{}", report.committed);
}

proptest! {
    /// Whatever is allocated and freed: contents do not leak from one buffer into another, and all is found again.
    #[test]
    fn buffers_keep_their_bytes(steps in prop::collection::vec((1u64..3000, any::<prop::sample::Index>(), any::<bool>()), 1..80), poison: bool) {
        let mut arena = arena_of(64 << 10, poison);
        let mut live: Vec<(Arc<Buffer>, u8)> = Vec::new();
        for (number, (bytes, index, free)) in steps.into_iter().enumerate() {
            if free && !live.is_empty() {
                let (buffer, value) = live.swap_remove(index.index(live.len()));
                prop_assert!(bytes_of(&arena, &buffer).iter().all(|&byte| byte == value));
                prop_assert!(arena.free(&buffer).is_ok());
                continue;
            }
            let largest = arena.report().largest_free;
            match allocate(&mut arena, bytes) {
                Err(error) => prop_assert!(bytes > largest, "{error}"),
                Ok(buffer) => {
                    arena.clear_stale(&buffer);
                    let fresh = if poison { FILL } else { 0 };
                    prop_assert!(bytes_of(&arena, &buffer).iter().all(|&byte| byte == fresh));
                    let value = number as u8 + 1;
                    arena.storage.fill(buffer.block().offset * GRANULE, bytes, value);
                    prop_assert!(Arc::ptr_eq(&arena.find_base(buffer.addr()).unwrap(), &buffer));
                    live.push((buffer, value));
                }
            }
        }
        prop_assert!(arena.check_guards(|| "at the end".into()).is_ok());
        for (buffer, value) in live {
            prop_assert!(bytes_of(&arena, &buffer).iter().all(|&byte| byte == value));
            prop_assert!(arena.free(&buffer).is_ok());
        }
        prop_assert_eq!(arena.report().live, 0);
        prop_assert_eq!(arena.blocks.largest_free(), (64 << 10) / GRANULE);
    }
}
