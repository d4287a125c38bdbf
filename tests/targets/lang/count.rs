// SPDX-License-Identifier: Apache-2.0
// Every allocation goes through a counter of its own on its way to the system allocator, or, with
// --cfg jemalloc or --cfg mimalloc, to the functions that the crates of these names call.
#[cfg(not(any(jemalloc, mimalloc)))]
use std::alloc::System as Heap;
use std::alloc::{GlobalAlloc, Layout};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

#[cfg(jemalloc)]
mod jemalloc {
    use std::alloc::{GlobalAlloc, Layout};
    extern "C" {
        fn _rjem_mallocx(bytes: usize, flags: i32) -> *mut u8;
        fn _rjem_rallocx(block: *mut u8, bytes: usize, flags: i32) -> *mut u8;
        fn _rjem_sdallocx(block: *mut u8, bytes: usize, flags: i32);
        fn _rjem_malloc(bytes: usize) -> *mut u8;
        fn _rjem_calloc(count: usize, bytes: usize) -> *mut u8;
        fn _rjem_realloc(block: *mut u8, bytes: usize) -> *mut u8;
    }
    pub struct Heap;
    fn flags(layout: Layout, bytes: usize) -> i32 {
        if layout.align() <= 16 && layout.align() <= bytes {
            return 0;
        }
        layout.align().trailing_zeros() as i32
    }
    unsafe impl GlobalAlloc for Heap {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            match flags(layout, layout.size()) {
                0 => _rjem_malloc(layout.size()),
                some => _rjem_mallocx(layout.size(), some),
            }
        }
        unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
            match flags(layout, layout.size()) {
                0 => _rjem_calloc(1, layout.size()),
                some => _rjem_mallocx(layout.size(), some | 0x40),
            }
        }
        unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
            _rjem_sdallocx(block, layout.size(), flags(layout, layout.size()))
        }
        unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
            match flags(layout, bytes) {
                0 => _rjem_realloc(block, bytes),
                some => _rjem_rallocx(block, bytes, some),
            }
        }
    }
}
#[cfg(jemalloc)]
use jemalloc::Heap;

#[cfg(mimalloc)]
mod mimalloc {
    use std::alloc::{GlobalAlloc, Layout};
    extern "C" {
        fn mi_malloc_aligned(bytes: usize, alignment: usize) -> *mut u8;
        fn mi_zalloc_aligned(bytes: usize, alignment: usize) -> *mut u8;
        fn mi_realloc_aligned(block: *mut u8, bytes: usize, alignment: usize) -> *mut u8;
        fn mi_free(block: *mut u8);
    }
    pub struct Heap;
    unsafe impl GlobalAlloc for Heap {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            mi_malloc_aligned(layout.size(), layout.align())
        }
        unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
            mi_zalloc_aligned(layout.size(), layout.align())
        }
        unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
            mi_free(block)
        }
        unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
            mi_realloc_aligned(block, bytes, layout.align())
        }
    }
}
#[cfg(mimalloc)]
use mimalloc::Heap;

struct Counter;
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static FREES: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);

unsafe impl GlobalAlloc for Counter {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, SeqCst);
        BYTES.fetch_add(layout.size() as u64, SeqCst);
        Heap.alloc(layout)
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        FREES.fetch_add(1, SeqCst);
        Heap.dealloc(block, layout)
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, SeqCst);
        BYTES.fetch_add(layout.size() as u64, SeqCst);
        Heap.alloc_zeroed(layout)
    }
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, SeqCst);
        FREES.fetch_add(1, SeqCst);
        BYTES.fetch_add(bytes as u64, SeqCst);
        Heap.realloc(block, layout, bytes)
    }
}

#[global_allocator]
static COUNTER: Counter = Counter;

#[inline(never)]
fn work() -> HashMap<u32, Vec<u32>> {
    let mut map = HashMap::new();
    for i in 0..500 {
        let list: &mut Vec<u32> = map.entry(i % 100).or_default();
        list.push(i);
    }
    map
}

fn main() {
    let map = work();
    std::mem::forget(map);
    let (allocations, frees) = (ALLOCATIONS.load(SeqCst), FREES.load(SeqCst));
    eprintln!("{} {} {}", allocations, frees, BYTES.load(SeqCst));
    // Without the destructors of the runtime, which free what it made for itself.
    unsafe { leave(0) }
}

extern "C" {
    #[link_name = "_exit"]
    fn leave(status: i32) -> !;
}
