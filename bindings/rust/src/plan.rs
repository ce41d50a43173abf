//! A problem bound to a device and a kernel, ready to run many times.

use crate::arguments::Arguments;
use crate::buffer::Buffer;
use crate::device::{static_text, Device};
use crate::error::{check, text, Error, Result};
use crate::executor::{check_with_executor, Executor};
use crate::problem::Problem;
use crate::sys;
use std::ffi::CString;
use std::os::raw::c_void;
use std::ptr::NonNull;

/// How a plan is to be made. Everything has a default.
#[derive(Clone, Debug, Default)]
pub struct PlanOptions {
    /// Empty: `RAPT_KERNEL`, else rapt's choice.
    pub kernel: String,
    /// "key=value,key=value": values that replace the kernel's own.
    pub config: String,
    /// The CPU's threads; absent: rapt's own.
    pub executor: Option<Executor>,
    /// Bytes that the plan's workspace may have; absent: any number.
    pub workspace_limit: Option<usize>,
}

/// Made once and run as often as one likes, from many threads at once, each with its own workspace.
///
/// ```
/// use rapt::{Device, Forward, Inputs, Options, Plan, PlanOptions, Problem, Tensor, TensorMut};
///
/// # fn main() -> rapt::Result<()> {
/// let (q, mut out) = (vec![0.5f32; 64], vec![0f32; 64]);
/// let q = Tensor::dense(&q, &[1, 4, 2, 8])?;
/// let out = TensorMut::dense(&mut out, &[1, 4, 2, 8])?;
/// let mut arguments = Forward::new(Inputs::new(q, q, q), out);
///
/// let problem = Problem::of(&arguments, &Options { causal: true, ..Default::default() })?;
/// let plan = Plan::new(&problem, Device::Cpu, &PlanOptions::default())?;
/// let mut workspace = plan.workspace()?;
/// for _step in 0..3 {
///     plan.run(&mut arguments, &mut workspace)?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Plan {
    raw: NonNull<sys::rapt_plan>,
    device: Device,
    kernel: &'static str,
    workspace_bytes: usize,
    _executor: Option<Executor>, // which the C plan has a pointer to
}

// SAFETY: a C plan is run by many threads at once, and executors are Send and Sync.
unsafe impl Send for Plan {}
unsafe impl Sync for Plan {}

impl Plan {
    /// By the kernel that [`PlanOptions::kernel`] says.
    pub fn new(problem: &Problem, device: Device, options: &PlanOptions) -> Result<Plan> {
        let (kernel, config) = (c_text(&options.kernel)?, c_text(&options.config)?);
        let executor = options.executor.as_ref().map(Executor::raw);
        let mut raw_options = sys::rapt_plan_options::new();
        raw_options.kernel = kernel.as_ptr();
        raw_options.config = config.as_ptr();
        raw_options.executor = executor.as_ref().map_or(std::ptr::null(), |raw| raw);
        raw_options.has_workspace_limit = options.workspace_limit.is_some().into();
        raw_options.workspace_limit = options.workspace_limit.unwrap_or(0);

        let mut raw = std::ptr::null_mut();
        // SAFETY: texts that end in zero, a struct that says how large it is, a place for the plan.
        check(unsafe {
            sys::rapt_plan_create_from_problem(
                problem.c_text().as_ptr(),
                device.c_name().as_ptr(),
                &raw_options,
                &mut raw,
            )
        })?;
        let mut plan = Plan {
            raw: NonNull::new(raw).expect("a plan that was made"),
            device,
            kernel: "",
            workspace_bytes: 0,
            _executor: options.executor.clone(),
        };
        let mut name = std::ptr::null();
        // SAFETY: a plan, and places for what is asked; the name is static text.
        check(unsafe { sys::rapt_plan_kernel(raw, &mut name) })?;
        plan.kernel = unsafe { static_text(name) };
        check(unsafe { sys::rapt_plan_workspace_bytes(raw, &mut plan.workspace_bytes) })?;
        Ok(plan)
    }

    /// The device that it is for.
    pub fn device(&self) -> Device {
        self.device
    }

    /// The name of its kernel: "cpu.flash".
    pub fn kernel(&self) -> &'static str {
        self.kernel
    }

    /// What it runs with, "key=value,key=value"; empty if the kernel has no config.
    pub fn config(&self) -> Result<String> {
        // SAFETY: a plan, and room of the capacity that is said; the same below.
        text(|buffer, capacity, needed| unsafe {
            sys::rapt_plan_config(self.raw.as_ptr(), buffer, capacity, needed)
        })
    }

    /// The problem that it is for.
    pub fn problem(&self) -> Result<Problem> {
        Problem::written(text(|buffer, capacity, needed| unsafe {
            sys::rapt_plan_problem(self.raw.as_ptr(), buffer, capacity, needed)
        })?)
    }

    /// How many bytes its workspace has.
    pub fn workspace_bytes(&self) -> usize {
        self.workspace_bytes
    }

    /// New memory for [`run`](Plan::run) and [`launch`](Plan::launch).
    pub fn workspace(&self) -> Result<Buffer> {
        Buffer::new(self.device, self.workspace_bytes)
    }

    /// Computes on the CPU, allocates nothing, and returns when the result is there. A plan for a GPU
    /// is refused, whose work goes on after the tensors' lifetimes may have ended: it has
    /// [`launch`](Plan::launch).
    pub fn run(&self, arguments: &mut impl Arguments, workspace: &mut Buffer) -> Result<()> {
        if self.device != Device::Cpu {
            return Err(Error::invalid(format!(
                "this plan is for {}, where run() cannot know when the work is done; use launch()",
                self.device
            )));
        }
        // SAFETY: rapt checks the host's index data, and waits.
        unsafe { self.launch(arguments, workspace, std::ptr::null_mut()) }
    }

    /// Computes; on a GPU it returns when the work is in the stream. `stream` is the runtime's own
    /// handle (`cudaStream_t`, `hipStream_t`); null is the default one.
    ///
    /// # Safety
    /// The tensors and the workspace stay as they are, and nobody else touches what is written, until
    /// the stream has done the work. Starts, lengths and page tables on a GPU are right, which rapt
    /// does not look at there unless `RAPT_CHECK=1`.
    pub unsafe fn launch(
        &self,
        arguments: &mut impl Arguments,
        workspace: &mut Buffer,
        stream: *mut c_void,
    ) -> Result<()> {
        let raw_arguments = arguments.raw(Some(self.device))?;
        if workspace.device() != self.device {
            return Err(Error::invalid(format!(
                "the workspace lies on {}, and the plan is for {}; make it by Plan::workspace()",
                workspace.device(),
                self.device
            )));
        }
        let mut launch = sys::rapt_launch::new();
        launch.stream = stream;
        launch.workspace = workspace.as_ptr();
        launch.workspace_bytes = workspace.bytes();
        check_with_executor(|| sys::rapt_plan_run(self.raw.as_ptr(), &raw_arguments, &launch))
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        // SAFETY: made by rapt_plan_create_from_problem, and nobody's any more.
        unsafe { sys::rapt_plan_destroy(self.raw.as_ptr()) }
    }
}

fn c_text(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::invalid(format!("{text:?} holds a zero byte")))
}
