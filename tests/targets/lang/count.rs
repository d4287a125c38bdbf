// SPDX-License-Identifier: Apache-2.0
// Every allocation goes through a counter of its own on its way to the system allocator.
use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

struct Counter;
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static FREES: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);

unsafe impl GlobalAlloc for Counter {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, SeqCst);
        BYTES.fetch_add(layout.size() as u64, SeqCst);
        System.alloc(layout)
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        FREES.fetch_add(1, SeqCst);
        System.dealloc(block, layout)
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, SeqCst);
        BYTES.fetch_add(layout.size() as u64, SeqCst);
        System.alloc_zeroed(layout)
    }
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, SeqCst);
        FREES.fetch_add(1, SeqCst);
        BYTES.fetch_add(bytes as u64, SeqCst);
        System.realloc(block, layout, bytes)
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
