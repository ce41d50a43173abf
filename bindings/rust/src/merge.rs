//! Two results over disjoint sets of keys, combined exactly.

use crate::device::Device;
use crate::error::{Error, Result};
use crate::executor::{check_with_executor, Executor};
use crate::sys;
use crate::tensor::{Tensor, TensorMut};
use std::os::raw::c_void;

/// The result of attending to one set of keys; `out` may be f32, f16 or bf16.
#[derive(Clone, Copy, Debug)]
pub struct Partial<'a> {
    /// As [`Forward::out`](crate::Forward::out).
    pub out: Tensor<'a>,
    /// As [`Forward::lse`](crate::Forward::lse).
    pub lse: Tensor<'a>,
}

/// The same, to be written.
#[derive(Debug)]
pub struct PartialMut<'a> {
    /// As [`Forward::out`](crate::Forward::out).
    pub out: TensorMut<'a>,
    /// As [`Forward::lse`](crate::Forward::lse).
    pub lse: TensorMut<'a>,
}

/// What attending to the keys of both sides would have given; on the CPU. Without an executor on
/// rapt's own threads.
pub fn merge(
    first: &Partial<'_>,
    second: &Partial<'_>,
    result: &mut PartialMut<'_>,
    executor: Option<&Executor>,
) -> Result<()> {
    let sides = [first.raw(), second.raw(), result.raw()];
    call(sides, Device::Cpu, std::ptr::null_mut(), executor)
}

/// The same in place: `result` is one of the sides.
pub fn merge_into(
    result: &mut PartialMut<'_>,
    other: &Partial<'_>,
    executor: Option<&Executor>,
) -> Result<()> {
    let sides = [result.raw(), other.raw(), result.raw()];
    call(sides, Device::Cpu, std::ptr::null_mut(), executor)
}

/// [`merge`] on a GPU: it returns when the work is in the stream.
///
/// # Safety
/// The tensors stay as they are, and nobody else touches the result, until the stream has done the
/// work.
pub unsafe fn launch_merge(
    first: &Partial<'_>,
    second: &Partial<'_>,
    result: &mut PartialMut<'_>,
    device: Device,
    stream: *mut c_void,
) -> Result<()> {
    call([first.raw(), second.raw(), result.raw()], device, stream, None)
}

/// A side as C has it, and where its tensors lie.
type Side = (sys::rapt_partial, [Device; 2]);

impl Partial<'_> {
    fn raw(&self) -> Side {
        (side(self.out.raw, self.lse.raw), [self.out.device, self.lse.device])
    }
}

impl PartialMut<'_> {
    fn raw(&self) -> Side {
        (side(self.out.raw, self.lse.raw), [self.out.device, self.lse.device])
    }
}

fn side(out: sys::rapt_tensor, lse: sys::rapt_tensor) -> sys::rapt_partial {
    sys::rapt_partial { out, lse, ..sys::rapt_partial::new() }
}

fn call(
    [first, second, result]: [Side; 3],
    device: Device,
    stream: *mut c_void,
    executor: Option<&Executor>,
) -> Result<()> {
    for place in [first.1, second.1, result.1].concat() {
        if place != device {
            return Err(Error::invalid(format!(
                "a side lies on {place}, and the merge runs on {device}; copy it into a Buffer there"
            )));
        }
    }
    let executor = executor.map(Executor::raw);
    let mut options = sys::rapt_merge_options::new();
    options.stream = stream;
    options.executor = executor.as_ref().map_or(std::ptr::null(), |raw| raw);
    let name = device.c_name();
    // SAFETY: structs that say how large they are; on the CPU the call returns when all is done.
    check_with_executor(|| unsafe {
        sys::rapt_merge(&first.0, &second.0, &result.0, name.as_ptr(), &options)
    })
}
