//! The chips of this machine, and the kernels that rapt has for them.

use crate::error::{check, text, Error, Result};
use crate::sys;
use std::ffi::{CStr, CString};
use std::fmt;
use std::os::raw::c_char;
use std::str::FromStr;

/// A chip, by its backend and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Device {
    /// The host's processors.
    Cpu,
    /// An NVIDIA GPU, by CUDA's number.
    Cuda(u32),
    /// An AMD GPU, by HIP's number.
    Hip(u32),
}

/// What a device is. Limits are flop/s, bytes/s and bytes, from the data sheet; 0: unknown or absent.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct DeviceProperties {
    /// What the chip is called.
    pub chip: String,
    /// Names separated by spaces: "avx2 fma f16c".
    pub features: String,
    /// That a plan uses on the CPU; 1 on a GPU.
    pub threads: i32,
    /// Of a GPU; 0 on the CPU.
    pub multiprocessors: i32,
    /// Of f32, without matrix units.
    pub f32_flops: f64,
    /// Of products of f16 and bf16: matrix units, or on a CPU AVX-512's dot products.
    pub matrix_flops: f64,
    /// Of reading memory.
    pub read_bandwidth: f64,
    /// Of copying memory: what is read and what is written, together.
    pub copy_bandwidth: f64,
    /// How large its memory is.
    pub memory_bytes: f64,
    /// How large its last cache is: L3 of a CPU, L2 of a GPU.
    pub cache_bytes: f64,
}

impl Device {
    /// What it is; an error if there is no such device.
    pub fn properties(self) -> Result<DeviceProperties> {
        let mut raw = sys::rapt_device_properties::new();
        // SAFETY: a text that ends in zero, and a struct that says how large it is.
        check(unsafe { sys::rapt_device_describe(self.c_name().as_ptr(), &mut raw) })?;
        Ok(DeviceProperties {
            chip: ended_text(&raw.chip),
            features: ended_text(&raw.features),
            threads: raw.threads,
            multiprocessors: raw.multiprocessors,
            f32_flops: raw.f32_flops,
            matrix_flops: raw.matrix_flops,
            read_bandwidth: raw.read_bandwidth,
            copy_bandwidth: raw.copy_bandwidth,
            memory_bytes: raw.memory_bytes,
            cache_bytes: raw.cache_bytes,
        })
    }

    pub(crate) fn c_name(self) -> CString {
        CString::new(self.to_string()).expect("a device's name holds no zero")
    }
}

impl fmt::Display for Device {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Cpu => formatter.write_str("cpu"),
            Device::Cuda(index) => write!(formatter, "cuda:{index}"),
            Device::Hip(index) => write!(formatter, "hip:{index}"),
        }
    }
}

/// As `Display` writes it: "cpu", "cuda:0". Whether there is such a device, its properties tell.
impl FromStr for Device {
    type Err = Error;

    fn from_str(text: &str) -> Result<Device> {
        let wrong = || Error::invalid(format!("'{text}' is no device; write cpu, cuda:0 or hip:0"));
        if text == "cpu" {
            return Ok(Device::Cpu);
        }
        let (backend, index) = text.split_once(':').ok_or_else(wrong)?;
        let index = index.parse().map_err(|_| wrong())?;
        match backend {
            "cuda" => Ok(Device::Cuda(index)),
            "hip" => Ok(Device::Hip(index)),
            _ => Err(wrong()),
        }
    }
}

/// Those of this machine, the CPU first.
pub fn devices() -> Result<Vec<Device>> {
    let mut count = 0;
    // SAFETY: a place for a number, then places for text of the capacity that is said.
    check(unsafe { sys::rapt_device_count(&mut count) })?;
    (0..count)
        .map(|index| {
            text(|buffer, capacity, needed| unsafe {
                sys::rapt_device_name(index, buffer, capacity, needed)
            })?
            .parse()
        })
        .collect()
}

/// The names of rapt's kernels, in the order of the ladder: "cpu.naive". [`PlanOptions::kernel`] takes
/// them.
///
/// [`PlanOptions::kernel`]: crate::PlanOptions::kernel
pub fn kernels() -> Result<Vec<&'static str>> {
    let mut count = 0;
    // SAFETY: a place for a number, then for pointers to static text.
    check(unsafe { sys::rapt_kernel_count(&mut count) })?;
    (0..count)
        .map(|index| {
            let mut name = std::ptr::null();
            check(unsafe { sys::rapt_kernel_name(index, &mut name) })?;
            Ok(unsafe { static_text(name) })
        })
        .collect()
}

/// Of the library.
pub fn version() -> &'static str {
    // SAFETY: static text.
    unsafe { static_text(sys::rapt_version()) }
}

/// # Safety
/// Text that ends in zero and lives as long as the process.
pub(crate) unsafe fn static_text(text: *const c_char) -> &'static str {
    CStr::from_ptr(text).to_str().expect("rapt's names are ASCII")
}

/// What stands before the first zero.
fn ended_text(characters: &[c_char]) -> String {
    let bytes: Vec<u8> =
        characters.iter().take_while(|letter| **letter != 0).map(|letter| *letter as u8).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
