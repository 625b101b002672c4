//! The atomics of the mailbox. In a model of it they are those of `loom`, which tries every order
//! of the threads' steps, and the values that a load may return where no other order forbids it.
//!
//! ```sh
//! RUSTFLAGS='--cfg loom' LOOM_MAX_PREEMPTIONS=2 cargo test -p sweephand-agent --lib mailbox::model
//! ```

/// Whether this is a model. It has fewer of everything, so that there are fewer orders to try.
pub(crate) const IS_MODELLED: bool = cfg!(all(test, loom));

#[cfg(not(all(test, loom)))]
pub(crate) use core::sync::atomic::{
    AtomicBool, AtomicI64, AtomicIsize, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
#[cfg(all(test, loom))]
pub(crate) use modelled::*;

#[cfg(all(test, loom))]
mod modelled {
    pub(crate) use loom::sync::atomic::{Ordering, fence};
    use std::sync::OnceLock;

    /// Writes to an atomic. `loom` takes `SeqCst` for `AcqRel`, but knows fences, so there is one
    /// behind a write that is `SeqCst`, as on x86-64.
    fn write<R>(order: Ordering, work: impl FnOnce() -> R) -> R {
        let result = work();
        if order == Ordering::SeqCst {
            fence(Ordering::SeqCst);
        }
        result
    }

    /// Atomics of `loom`, made at their first use, because a constant cannot contain them. That
    /// must come before there are other threads.
    macro_rules! atomics {
        ($($name:ident $value:ty)*) => {$(
            pub(crate) struct $name {
                first: $value,
                made: OnceLock<loom::sync::atomic::$name>,
            }

            #[allow(dead_code, reason = "not every kind of number has every operation")]
            impl $name {
                pub(crate) const fn new(first: $value) -> Self {
                    Self { first, made: OnceLock::new() }
                }

                fn made(&self) -> &loom::sync::atomic::$name {
                    self.made.get_or_init(|| loom::sync::atomic::$name::new(self.first))
                }

                pub(crate) fn load(&self, order: Ordering) -> $value {
                    self.made().load(order)
                }

                pub(crate) fn store(&self, value: $value, order: Ordering) {
                    write(order, || self.made().store(value, order));
                }

                pub(crate) fn swap(&self, value: $value, order: Ordering) -> $value {
                    write(order, || self.made().swap(value, order))
                }

                pub(crate) fn compare_exchange(
                    &self,
                    from: $value,
                    to: $value,
                    order: Ordering,
                    failed: Ordering,
                ) -> Result<$value, $value> {
                    let exchange = || self.made().compare_exchange(from, to, order, failed);
                    write(order, exchange)
                }
            }
        )*};
    }

    macro_rules! numbers {
        ($($name:ident $value:ty)*) => {
            atomics! { $($name $value)* }

            $(
                #[allow(dead_code, reason = "not every kind of number has every operation")]
                impl $name {
                    pub(crate) fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                        write(order, || self.made().fetch_add(value, order))
                    }

                    pub(crate) fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                        write(order, || self.made().fetch_or(value, order))
                    }
                }
            )*
        };
    }

    atomics! { AtomicBool bool }
    numbers! { AtomicU32 u32 AtomicU64 u64 AtomicUsize usize AtomicI64 i64 AtomicIsize isize }
}
