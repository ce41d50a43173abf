//! Threads lent by the caller.

use crate::error::{check, Result};
use crate::sys;
use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::os::raw::c_void;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::Arc;

/// A way to run work on threads of the caller's own, made from a closure. Clones share it.
///
/// The closure has its threads call [`Work::run`] and returns when they have. Whatever they leave
/// undone, the thread that asked for attention does. It may be called from many threads at once. If it
/// panics, so does the call that it worked for, once nothing is left to do.
///
/// ```
/// # fn main() -> rapt::Result<()> {
/// let executor = rapt::Executor::new(2, |work| {
///     std::thread::scope(|scope| {
///         scope.spawn(|| work.run());
///         work.run();
///     })
/// });
/// let problem = rapt::Problem::parse("b1 h16 s2048 d64 f32")?;
/// let options = rapt::PlanOptions { executor: Some(executor), ..Default::default() };
/// let plan = rapt::Plan::new(&problem, rapt::Device::Cpu, &options)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Executor {
    shared: Arc<Shared>,
}

struct Shared {
    concurrency: i32,
    parallel: Box<dyn Fn(&Work) + Send + Sync>,
}

/// Pieces that may be done in any order, on any threads.
#[derive(Debug)]
pub struct Work {
    count: i64,
    next: AtomicI64,
    body: sys::body,
    context: *mut c_void,
}

// SAFETY: rapt's bodies may be called from any thread, and `next` gives each index to one of them.
unsafe impl Sync for Work {}

impl Work {
    /// How many pieces there are.
    pub fn count(&self) -> i64 {
        self.count
    }

    /// Does one piece that nobody has begun; false if none is left.
    pub fn run_one(&self) -> bool {
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        if index >= self.count {
            self.next.fetch_sub(1, Ordering::Relaxed); // so that it does not grow for ever
            return false;
        }
        // SAFETY: each index below count once, while rapt waits for them.
        unsafe { (self.body)(self.context, index) };
        true
    }

    /// Does pieces until none is left.
    pub fn run(&self) {
        while self.run_one() {}
    }
}

impl Executor {
    /// `concurrency`: how many pieces run at once at most; 1 or more.
    pub fn new(concurrency: i32, parallel: impl Fn(&Work) + Send + Sync + 'static) -> Executor {
        Executor { shared: Arc::new(Shared { concurrency, parallel: Box::new(parallel) }) }
    }

    /// For C, which copies it. It is valid while this executor or a clone lives.
    pub(crate) fn raw(&self) -> sys::rapt_executor {
        let mut raw = sys::rapt_executor::new();
        raw.context = Arc::as_ptr(&self.shared) as *mut c_void;
        raw.parallel_for = Some(parallel_for);
        raw.concurrency = self.shared.concurrency;
        raw
    }
}

impl fmt::Debug for Executor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Executor {{ concurrency: {} }}", self.shared.concurrency)
    }
}

thread_local! {
    /// What a closure panicked with, until C, which nothing may unwind through, has returned.
    static PANIC: RefCell<Option<Box<dyn Any + Send>>> = RefCell::new(None);
}

unsafe extern "C" fn parallel_for(
    context: *mut c_void,
    count: i64,
    body: sys::body,
    body_context: *mut c_void,
) {
    let shared = &*context.cast::<Shared>();
    let next = AtomicI64::new(0);
    let work = Work { count, next, body, context: body_context };
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (shared.parallel)(&work))) {
        PANIC.with(|kept| *kept.borrow_mut() = Some(panic));
    }
    work.run();
}

/// Calls a C function that may call a closure, and has this thread go on with its panic.
pub(crate) fn check_with_executor(call: impl FnOnce() -> i32) -> Result<()> {
    let status = call();
    if let Some(panic) = PANIC.with(|kept| kept.borrow_mut().take()) {
        resume_unwind(panic);
    }
    check(status)
}
