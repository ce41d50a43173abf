//! Views of memory that somebody else owns, for as long as Rust knows that memory to be lent.

use crate::device::Device;
use crate::error::{check, Error, Result};
use crate::sys;
use std::marker::PhantomData;
use std::ops::Range;
use std::os::raw::c_void;

/// A half-precision number by its bits, which other crates' types have too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct F16(pub u16);

/// A bfloat16 by its bits: the upper half of a float's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Bf16(pub u16);

/// A type that tensors are made of.
///
/// # Safety
/// It is laid out as `DTYPE` says, and any bits are a value of it.
pub unsafe trait Element: Copy + Send + Sync + 'static {
    /// The type as rapt knows it.
    const DTYPE: DType;
}

/// All that is known of each type: its name and number in rapt, and what an element is in Rust.
macro_rules! types {
    ($($(#[$comment:meta])* $name:ident = $number:literal of $element:ty;)*) => {
        /// The type of a tensor's elements, as rapt numbers them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(i32)]
        pub enum DType {
            $($(#[$comment])* $name = $number,)*
        }

        $(unsafe impl Element for $element {
            const DTYPE: DType = DType::$name;
        })*

        /// How many bytes an element of a tensor has, by the number of its type.
        fn bytes_of(dtype: i32) -> usize {
            match dtype {
                $($number => std::mem::size_of::<$element>(),)*
                _ => unreachable!("a tensor is made with a DType"),
            }
        }
    };
}

types! {
    /// IEEE single precision.
    F32 = 1 of f32;
    /// IEEE half precision.
    F16 = 2 of F16;
    /// The upper half of an f32.
    Bf16 = 3 of Bf16;
    /// Starts, lengths and page tables.
    I32 = 4 of i32;
    /// Masks.
    U8 = 5 of u8;
    /// Seeds.
    I64 = 6 of i64;
}

/// A tensor that is read: up to four axes, the last one contiguous.
///
/// ```
/// # fn main() -> rapt::Result<()> {
/// let qkv = vec![0f32; 2 * 10 * 12 * 64]; // [batch, seq, 4 heads each of q, k and v, dim]
/// let all = rapt::Tensor::dense(&qkv, &[2, 10, 12, 64])?;
/// let (q, k, v) = (all.narrow(2, 0..4)?, all.narrow(2, 4..8)?, all.narrow(2, 8..12)?);
///
/// let other = vec![0f32; 2 * 4 * 10 * 64]; // [batch, head, seq, dim]
/// let q = rapt::Tensor::dense(&other, &[2, 4, 10, 64])?.transposed(1, 2)?;
/// assert_eq!(q.size(), [2, 10, 4, 64]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'a> {
    pub(crate) raw: sys::rapt_tensor,
    pub(crate) device: Device,
    lent: PhantomData<&'a [u8]>,
}

/// A tensor that is written. While it lives, nobody else has its memory:
///
/// ```compile_fail
/// let mut data = vec![0f32; 8];
/// let out = rapt::TensorMut::dense(&mut data, &[8]).unwrap();
/// data[0] = 1.0;
/// assert_eq!(out.size()[0], 8);
/// ```
#[derive(Debug)]
pub struct TensorMut<'a> {
    pub(crate) raw: sys::rapt_tensor,
    pub(crate) device: Device,
    lent: PhantomData<&'a mut [u8]>,
}

// SAFETY: elements are plain numbers, lent to be read, or to be written by whoever has the tensor.
unsafe impl Send for Tensor<'_> {}
unsafe impl Sync for Tensor<'_> {}
unsafe impl Send for TensorMut<'_> {}
unsafe impl Sync for TensorMut<'_> {}

impl<'a> Tensor<'a> {
    /// All of `data`, row-major.
    pub fn dense<T: Element>(data: &'a [T], size: &[usize]) -> Result<Tensor<'a>> {
        check_count(size, data.len())?;
        let raw = dense(data.as_ptr().cast(), T::DTYPE, size)?;
        Ok(Tensor { raw, device: Device::Cpu, lent: PhantomData })
    }

    /// A row-major tensor of memory that Rust knows nothing of, on a GPU or not.
    ///
    /// # Safety
    /// `data` has that many elements on `device`, and nobody writes to them while the tensor is in use.
    pub unsafe fn from_raw(
        data: *const c_void,
        dtype: DType,
        size: &[usize],
        device: Device,
    ) -> Result<Tensor<'a>> {
        Ok(Tensor { raw: dense(data, dtype, size)?, device, lent: PhantomData })
    }

    /// A part of one axis.
    pub fn narrow(self, axis: usize, range: Range<usize>) -> Result<Tensor<'a>> {
        Ok(Tensor { raw: narrowed(self.raw, axis, range)?, ..self })
    }

    /// The same memory with two axes exchanged, so that bhsd data can be given as bshd.
    pub fn transposed(self, axis: usize, other: usize) -> Result<Tensor<'a>> {
        Ok(Tensor { raw: transposed(&self.raw, axis, other)?, ..self })
    }

    /// Axes that it does not have are 1.
    pub fn size(&self) -> [usize; 4] {
        self.raw.size.map(|size| size as usize)
    }
}

impl<'a> TensorMut<'a> {
    /// All of `data`, row-major.
    pub fn dense<T: Element>(data: &'a mut [T], size: &[usize]) -> Result<TensorMut<'a>> {
        check_count(size, data.len())?;
        let raw = dense(data.as_mut_ptr().cast(), T::DTYPE, size)?;
        Ok(TensorMut { raw, device: Device::Cpu, lent: PhantomData })
    }

    /// A row-major tensor of memory that Rust knows nothing of, on a GPU or not.
    ///
    /// # Safety
    /// `data` has that many elements on `device`, and nobody else touches them while the tensor is in
    /// use.
    pub unsafe fn from_raw(
        data: *mut c_void,
        dtype: DType,
        size: &[usize],
        device: Device,
    ) -> Result<TensorMut<'a>> {
        Ok(TensorMut { raw: dense(data, dtype, size)?, device, lent: PhantomData })
    }

    /// A part of one axis.
    pub fn narrow(self, axis: usize, range: Range<usize>) -> Result<TensorMut<'a>> {
        Ok(TensorMut { raw: narrowed(self.raw, axis, range)?, ..self })
    }

    /// The same memory with two axes exchanged, so that bhsd data can be given as bshd.
    pub fn transposed(self, axis: usize, other: usize) -> Result<TensorMut<'a>> {
        Ok(TensorMut { raw: transposed(&self.raw, axis, other)?, ..self })
    }

    /// Axes that it does not have are 1.
    pub fn size(&self) -> [usize; 4] {
        self.raw.size.map(|size| size as usize)
    }
}

/// How many elements a tensor of that size has.
pub(crate) fn elements(size: &[usize]) -> Result<usize> {
    size.iter()
        .try_fold(1usize, |product, size| product.checked_mul(*size))
        .filter(|product| *product <= isize::MAX as usize)
        .ok_or_else(|| Error::invalid(format!("a tensor of size {size:?} is larger than memory")))
}

fn check_count(size: &[usize], given: usize) -> Result<()> {
    let needed = elements(size)?;
    if needed == given {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "a tensor of size {size:?} has {needed} elements; {given} are given"
    )))
}

fn dense(data: *const c_void, dtype: DType, size: &[usize]) -> Result<sys::rapt_tensor> {
    elements(size)?; // so that each size is an i64, too
    let sizes: Vec<i64> = size.iter().map(|size| *size as i64).collect();
    let axes = i32::try_from(sizes.len()).unwrap_or(i32::MAX);
    let mut raw = sys::rapt_tensor::zeroed();
    // SAFETY: as many sizes as are said; the data is not looked at.
    check(unsafe { sys::rapt_tensor_dense(&mut raw, data, dtype as i32, axes, sizes.as_ptr()) })?;
    Ok(raw)
}

fn narrowed(
    mut raw: sys::rapt_tensor,
    axis: usize,
    range: Range<usize>,
) -> Result<sys::rapt_tensor> {
    let size = *raw
        .size
        .get(axis)
        .ok_or_else(|| Error::invalid(format!("axis is {axis}; a tensor has axes 0 to 3")))?
        as usize;
    if range.start > range.end || range.end > size {
        return Err(Error::invalid(format!(
            "{range:?} is no part of axis {axis}, which has {size}"
        )));
    }
    let offset = range.start * raw.stride[axis] as usize * bytes_of(raw.dtype);
    raw.data = raw.data.cast::<u8>().wrapping_add(offset).cast();
    raw.size[axis] = range.len() as i64;
    Ok(raw)
}

fn transposed(raw: &sys::rapt_tensor, axis: usize, other: usize) -> Result<sys::rapt_tensor> {
    let number = |axis: usize| i32::try_from(axis).unwrap_or(i32::MAX);
    let mut result = sys::rapt_tensor::zeroed();
    // SAFETY: both are tensors; the data is not looked at.
    check(unsafe { sys::rapt_tensor_transposed(&mut result, raw, number(axis), number(other)) })?;
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_narrow<T: Element>(value: T) -> Result<()> {
        let mut data = [value; 6];
        let (second, third) = (&data[1] as *const T, &data[2] as *const T);
        let rows = Tensor::dense(&data, &[3, 2])?;
        assert_eq!(rows.narrow(0, 1..3)?.raw.data as *const T, third);
        assert_eq!(rows.narrow(1, 1..2)?.raw.data as *const T, second);
        let rows = TensorMut::dense(&mut data, &[3, 2])?;
        assert_eq!(rows.narrow(0, 1..3)?.raw.data as *const T, third);
        Ok(())
    }

    #[test]
    fn a_part_begins_at_its_first_element_whatever_the_type() -> Result<()> {
        check_narrow(0f32)?;
        check_narrow(F16(0))?;
        check_narrow(Bf16(0))?;
        check_narrow(0i32)?;
        check_narrow(0u8)?;
        check_narrow(0i64)
    }
}
