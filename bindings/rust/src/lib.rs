//! Exact attention, softmax(Q Kᵀ · scale + bias) V, and its gradients, on CPUs, NVIDIA and AMD GPUs.
//!
//! [`attention`] computes in one call:
//!
//! ```
//! use rapt::{attention, Device, Forward, Inputs, Options, Tensor, TensorMut};
//!
//! # fn main() -> rapt::Result<()> {
//! let (q, k) = (vec![0.5f32; 64], vec![0.5f32; 64]);
//! let v: Vec<f32> = (0..64).map(|i| (i / 16) as f32).collect(); // the token
//! let mut out = vec![0f32; 64];
//! let size = [1, 4, 2, 8]; // batch, seq, head, dim
//! let inputs = Inputs::new(
//!     Tensor::dense(&q, &size)?,
//!     Tensor::dense(&k, &size)?,
//!     Tensor::dense(&v, &size)?,
//! );
//! let mut arguments = Forward::new(inputs, TensorMut::dense(&mut out, &size)?);
//! attention(&mut arguments, &Options { causal: true, ..Default::default() }, Device::Cpu)?;
//! assert!((out[16] - 0.5).abs() < 1e-6); // the mean of tokens 0 and 1
//! # Ok(())
//! # }
//! ```
//!
//! Engines make a [`Plan`] once and run it as often as they like. Tensors are views with lifetimes:
//! what rapt writes is borrowed from nobody else. What a GPU does after a call has returned no lifetime
//! covers, and such calls are unsafe. Every fault is an [`Error`] with rapt's sentence.
//!
//! The crate is a thin layer over the C API; `docs/` in rapt's repository explains the terms, and
//! `docs/rust.md` what people do next.
#![warn(missing_debug_implementations, missing_docs)]

mod arguments;
mod buffer;
mod device;
mod error;
mod executor;
mod merge;
mod options;
mod plan;
mod problem;
mod sys;
mod tensor;

pub use arguments::{Arguments, Backward, Forward, Inputs};
pub use buffer::Buffer;
pub use device::{devices, kernels, version, Device, DeviceProperties};
pub use error::{Error, ErrorKind, Result};
pub use executor::{Executor, Work};
pub use merge::{launch_merge, merge, merge_into, Partial, PartialMut};
pub use options::{Options, Window};
pub use plan::{Plan, PlanOptions};
pub use problem::Problem;
pub use tensor::{Bf16, DType, Element, Tensor, TensorMut, F16};

use std::os::raw::c_char;

/// The programs of that page are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/rust.md")]
struct RustPage;

/// One attention from start to end: problem, plan, workspace, run, wait.
pub fn attention(arguments: &mut Forward<'_>, options: &Options, device: Device) -> Result<()> {
    at_once(sys::rapt_attention, arguments, options, device)
}

/// The gradients of one attention, from its arguments, its results and their gradients.
///
/// ```
/// use rapt::{attention, attention_backward, Backward, Device, Forward, Inputs, Options, Tensor, TensorMut};
///
/// # fn main() -> rapt::Result<()> {
/// let size = [1, 4, 2, 8];
/// let (data, dout, options) = (vec![0.5f32; 64], vec![1f32; 64], Options::default());
/// let (mut out, mut lse) = (vec![0f32; 64], vec![0f32; 8]);
/// let q = Tensor::dense(&data, &size)?;
/// let inputs = Inputs::new(q, q, q);
/// let mut forward = Forward::new(inputs, TensorMut::dense(&mut out, &size)?);
/// forward.lse = Some(TensorMut::dense(&mut lse, &[1, 2, 4])?);
/// attention(&mut forward, &options, Device::Cpu)?;
///
/// let (mut dq, mut dk, mut dv) = (vec![0f32; 64], vec![0f32; 64], vec![0f32; 64]);
/// let mut backward = Backward::new(
///     inputs,
///     Tensor::dense(&out, &size)?,
///     Tensor::dense(&lse, &[1, 2, 4])?,
///     Tensor::dense(&dout, &size)?,
///     TensorMut::dense(&mut dq, &size)?,
///     TensorMut::dense(&mut dk, &size)?,
///     TensorMut::dense(&mut dv, &size)?,
/// );
/// attention_backward(&mut backward, &options, Device::Cpu)?;
/// assert!(dv.iter().all(|value| (value - 1.0).abs() < 1e-6)); // each row gives its value once
/// # Ok(())
/// # }
/// ```
pub fn attention_backward(
    arguments: &mut Backward<'_>,
    options: &Options,
    device: Device,
) -> Result<()> {
    at_once(sys::rapt_attention_backward, arguments, options, device)
}

/// Reads starts, lengths and page table, from the device where needed, and reports the first fault.
pub fn check(arguments: &impl Arguments, options: &Options, device: Device) -> Result<()> {
    let (raw, options) = (arguments.raw(Some(device))?, options.raw());
    // SAFETY: structs that say how large they are, of tensors that lie on the device.
    error::check(unsafe { sys::rapt_check(&raw, &options, device.c_name().as_ptr()) })
}

type AtOnce = unsafe extern "C" fn(
    *const sys::rapt_arguments,
    *const sys::rapt_options,
    *const c_char,
) -> i32;

/// Index data on a GPU is looked at first: nothing else does.
fn at_once(
    function: AtOnce,
    arguments: &mut impl Arguments,
    options: &Options,
    device: Device,
) -> Result<()> {
    if device != Device::Cpu {
        check(arguments, options, device)?;
    }
    let (raw, options) = (arguments.raw(Some(device))?, options.raw());
    // SAFETY: structs that say how large they are, of tensors that lie on the device; it waits.
    error::check(unsafe { function(&raw, &options, device.c_name().as_ptr()) })
}
