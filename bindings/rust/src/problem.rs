//! Everything that the choice of a kernel depends on, in its text form.

use crate::arguments::Arguments;
use crate::device::Device;
use crate::error::{text, Error, Result};
use crate::options::Options;
use crate::sys;
use std::ffi::CString;
use std::fmt;
use std::str::FromStr;

/// Sizes, types, strides, mask kinds and extras of an attention; no pointers, no data.
///
/// With packed sequences or lengths the sizes are bounds: a plan takes every batch within them.
///
/// ```
/// # fn main() -> rapt::Result<()> {
/// let problem = rapt::Problem::parse("b2 h32/8 q1 kv8192 d128 bf16 causal page16")?;
/// println!("{}", problem.explain(rapt::Device::Cpu)?); // who would take it, who refuses and why
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Problem {
    text: CString,
}

impl Problem {
    /// The problem that arguments and options pose.
    pub fn of(arguments: &impl Arguments, options: &Options) -> Result<Problem> {
        let (arguments, options) = (arguments.raw(None)?, options.raw());
        // SAFETY: structs that say how large they are; no tensor's data is looked at.
        Problem::written(text(|buffer, capacity, needed| unsafe {
            sys::rapt_problem_of(&arguments, &options, buffer, capacity, needed)
        })?)
    }

    /// From text; `rapt help problem` lists the words.
    pub fn parse(text: &str) -> Result<Problem> {
        let problem = Problem::written(text.to_string())?;
        problem.explain(Device::Cpu)?; // which reads it
        Ok(problem)
    }

    /// Every kernel of the device with its estimate or its refusal, and the choice.
    pub fn explain(&self, device: Device) -> Result<String> {
        let device = device.c_name();
        // SAFETY: texts that end in zero.
        text(|buffer, capacity, needed| unsafe {
            sys::rapt_explain(self.text.as_ptr(), device.as_ptr(), buffer, capacity, needed)
        })
    }

    pub(crate) fn written(text: String) -> Result<Problem> {
        let text = CString::new(text).map_err(|_| {
            Error::invalid("a problem's text holds a zero byte; leave it out".into())
        })?;
        Ok(Problem { text })
    }

    pub(crate) fn c_text(&self) -> &CString {
        &self.text
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text.to_string_lossy())
    }
}

impl FromStr for Problem {
    type Err = Error;

    fn from_str(text: &str) -> Result<Problem> {
        Problem::parse(text)
    }
}
