//! Memory on a device: a plan's workspace, and tensors for those who have no allocator there.

use crate::device::Device;
use crate::error::{check, Error, Result};
use crate::sys;
use crate::tensor::{elements, Element, Tensor, TensorMut};
use std::os::raw::c_void;
use std::ptr::NonNull;

/// Memory on a device, freed with the value; on the CPU aligned to 64 bytes. It holds anything at
/// first.
///
/// ```
/// # fn main() -> rapt::Result<()> {
/// let mut buffer = rapt::Buffer::new(rapt::Device::Cpu, 3 * 4)?;
/// buffer.copy_from_host(&[1f32, 2.0, 3.0])?;
/// let sinks = buffer.tensor::<f32>(&[3])?;
/// assert_eq!(sinks.size(), [3, 1, 1, 1]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Buffer {
    raw: NonNull<sys::rapt_buffer>,
    data: *mut c_void,
    bytes: usize,
    device: Device,
}

// SAFETY: plain memory, which only who has the buffer writes to.
unsafe impl Send for Buffer {}
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Allocates as many bytes.
    pub fn new(device: Device, bytes: usize) -> Result<Buffer> {
        let (mut raw, mut data) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: a name that ends in zero, and places for pointers.
        check(unsafe { sys::rapt_buffer_create(device.c_name().as_ptr(), bytes, &mut raw) })?;
        let raw = NonNull::new(raw).expect("a buffer that was made");
        check(unsafe { sys::rapt_buffer_data(raw.as_ptr(), &mut data) })?;
        Ok(Buffer { raw, data, bytes, device })
    }

    /// The device whose memory it is.
    pub fn device(&self) -> Device {
        self.device
    }

    /// How many bytes it has.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where it lies: an address of its device.
    pub fn as_ptr(&self) -> *mut c_void {
        self.data
    }

    /// Fills its first bytes.
    pub fn copy_from_host<T: Element>(&mut self, source: &[T]) -> Result<()> {
        let bytes = std::mem::size_of_val(source);
        // SAFETY: the source has so many bytes; rapt refuses more than the buffer has.
        check(unsafe {
            sys::rapt_buffer_copy_from_host(self.raw.as_ptr(), source.as_ptr().cast(), bytes)
        })
    }

    /// Reads its first bytes.
    pub fn copy_to_host<T: Element>(&self, target: &mut [T]) -> Result<()> {
        let bytes = std::mem::size_of_val(target);
        // SAFETY: the target has so many bytes, any of which are elements.
        check(unsafe {
            sys::rapt_buffer_copy_to_host(self.raw.as_ptr(), target.as_mut_ptr().cast(), bytes)
        })
    }

    /// A row-major tensor at its beginning.
    pub fn tensor<T: Element>(&self, size: &[usize]) -> Result<Tensor<'_>> {
        self.check_room::<T>(size)?;
        // SAFETY: there is room, and who has a shared reference does not write.
        unsafe { Tensor::from_raw(self.data, T::DTYPE, size, self.device) }
    }

    /// A row-major tensor at its beginning, to be written.
    pub fn tensor_mut<T: Element>(&mut self, size: &[usize]) -> Result<TensorMut<'_>> {
        self.check_room::<T>(size)?;
        // SAFETY: there is room, and nobody else has it.
        unsafe { TensorMut::from_raw(self.data, T::DTYPE, size, self.device) }
    }

    fn check_room<T: Element>(&self, size: &[usize]) -> Result<()> {
        let needed = elements(size)?.saturating_mul(std::mem::size_of::<T>());
        if needed <= self.bytes {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "a tensor of size {size:?} takes {needed} bytes; the buffer has {}",
            self.bytes
        )))
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: made by rapt_buffer_create, and nobody's any more.
        unsafe { sys::rapt_buffer_destroy(self.raw.as_ptr()) }
    }
}
