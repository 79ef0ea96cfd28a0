//! Which sort of caller polls: a task, or a thread that waits by the blocking API.
//!
//! A thread says so while it polls, because a thread that a runtime keeps for blocking looks like a task: it is in the context of that
//! runtime, which perhaps does not run.

use std::cell::Cell;

#[cfg(not(all(test, leasehold_loom)))]
thread_local! {
    static IS_THREAD: Cell<bool> = const { Cell::new(false) };
}

// The threads of loom are none of the operating system.
#[cfg(all(test, leasehold_loom))]
loom::thread_local! {
    static IS_THREAD: Cell<bool> = Cell::new(false);
}

/// Whether the future that is being polled is polled by the blocking API.
pub(crate) fn is_thread() -> bool {
    IS_THREAD.with(Cell::get)
}

/// Polls for the blocking API.
pub(crate) fn as_thread<T>(poll: impl FnOnce() -> T) -> T {
    let _before = Restore(IS_THREAD.with(|is_thread| is_thread.replace(true)));
    poll()
}

/// Restores what was said before, also where the poll panics.
struct Restore(bool);

impl Drop for Restore {
    fn drop(&mut self) {
        IS_THREAD.with(|is_thread| is_thread.set(self.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;

    #[test]
    fn a_thread_says_so_while_it_polls_and_not_longer() {
        assert!(!is_thread());
        as_thread(|| {
            assert!(is_thread());
            as_thread(|| assert!(is_thread()));
            assert!(is_thread(), "the outer poll goes on");
        });
        assert!(!is_thread(), "a task may run on this thread next");
        assert!(catch_unwind(|| as_thread(|| panic!("the future does"))).is_err());
        assert!(!is_thread(), "also after a panic");
    }
}
