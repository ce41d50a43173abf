//! What goes wrong: a kind that a program can act on, and rapt's sentence for whoever reads it.

use crate::sys;
use std::ffi::CStr;
use std::fmt;
use std::os::raw::c_char;

/// What rapt's functions return.
pub type Result<T> = std::result::Result<T, Error>;

/// A sentence that names the value, the limit and the way out.
///
/// ```
/// let error = rapt::Problem::parse("b1 h2 s33 d16 nonsense").unwrap_err();
/// assert_eq!(error.kind(), rapt::ErrorKind::InvalidArgument);
/// assert!(error.to_string().contains("cannot read 'nonsense'"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    sentence: String,
}

/// What a program can act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The caller's input is wrong.
    InvalidArgument,
    /// No kernel, or not the named one, takes the input.
    Unsupported,
    /// No such kernel or device.
    NotFound,
    /// The host or the device has no memory left.
    OutOfMemory,
    /// A GPU's driver or runtime reported an error.
    DeviceFailure,
    /// A fault of rapt itself.
    Internal,
}

impl Error {
    /// What kind of error it is.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    pub(crate) fn invalid(sentence: String) -> Error {
        Error { kind: ErrorKind::InvalidArgument, sentence }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.sentence)
    }
}

impl std::error::Error for Error {}

/// The status of a C function, with the sentence that it left on this thread.
pub(crate) fn check(status: i32) -> Result<()> {
    let kind = match status {
        sys::RAPT_OK => return Ok(()),
        1 => ErrorKind::InvalidArgument,
        2 => ErrorKind::Unsupported,
        3 => ErrorKind::NotFound,
        4 => ErrorKind::OutOfMemory,
        5 => ErrorKind::DeviceFailure,
        _ => ErrorKind::Internal,
    };
    // SAFETY: never null, and valid until this thread's next failure.
    let sentence = unsafe { CStr::from_ptr(sys::rapt_last_error()) };
    Err(Error { kind, sentence: sentence.to_string_lossy().into_owned() })
}

/// The text that a C function writes into (buffer, capacity), setting how much it needs.
pub(crate) fn text(write: impl Fn(*mut c_char, usize, *mut usize) -> i32) -> Result<String> {
    let mut needed = 0;
    check(write(std::ptr::null_mut(), 0, &mut needed))?;
    let mut bytes = vec![0u8; needed];
    check(write(bytes.as_mut_ptr().cast(), bytes.len(), &mut needed))?;
    bytes.truncate(bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len()));
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
