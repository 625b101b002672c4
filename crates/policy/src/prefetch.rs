//! A hint to the processor: the one place of the crate with `unsafe`.

/// Asks for a value to be brought into the nearest cache. It changes nothing that a program can
/// see. Without an instruction for it on the processor, it does nothing.
#[inline(always)]
pub fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction is a hint. It reads nothing and cannot fault, and the reference is
    // valid. SSE is part of every x86-64 processor.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(core::ptr::from_ref(value).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}
