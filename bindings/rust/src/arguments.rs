//! The tensors of one attention, forward or backward: what is read and what is written are different
//! types, so that the compiler sees to it that nobody else has what rapt writes.

use crate::device::Device;
use crate::error::{Error, Result};
use crate::sys;
use crate::tensor::{Tensor, TensorMut};

/// What both operations read.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// `[batch, seq, head, dim]`; packed: `[1, total, head, dim]`.
    pub q: Tensor<'a>,
    /// `[batch, seq, kv head, dim]`; packed: `[1, total, …]`; paged: `[page, slot, …]`.
    pub k: Tensor<'a>,
    /// As `k`; its dim may differ.
    pub v: Tensor<'a>,
    /// `[batch, head, seq q, seq kv]`, 1 where broadcast; f32 or q's type.
    pub bias: Option<Tensor<'a>>,
    /// As `bias`, of bytes; 1: attend.
    pub mask: Option<Tensor<'a>>,
    /// `[head]` or `[batch, head]`.
    pub alibi: Option<Tensor<'a>>,
    /// `[head]`.
    pub sinks: Option<Tensor<'a>>,
    /// `[batch + 1]`: where packed sequences begin.
    pub q_starts: Option<Tensor<'a>>,
    /// The same of keys, if they are not paged.
    pub kv_starts: Option<Tensor<'a>>,
    /// `[batch]`: how many keys of each sequence are in use.
    pub kv_lengths: Option<Tensor<'a>>,
    /// `[batch, pages of a sequence]`.
    pub page_table: Option<Tensor<'a>>,
    /// `[2]` of i64, with `Options::dropout`: a seed and an offset.
    pub seed: Option<Tensor<'a>>,
}

/// The arguments of attention itself.
#[derive(Debug)]
pub struct Forward<'a> {
    /// What is read.
    pub inputs: Inputs<'a>,
    /// As q, with v's dim; of q's type or f32.
    pub out: TensorMut<'a>,
    /// The log-sum-exp of each row, `[batch, head, seq]`; packed: `[1, head, total]`.
    pub lse: Option<TensorMut<'a>>,
}

/// The arguments of its gradients.
#[derive(Debug)]
pub struct Backward<'a> {
    /// What forward read.
    pub inputs: Inputs<'a>,
    /// What forward gave.
    pub out: Tensor<'a>,
    /// The log-sum-exp that forward gave; it may cover more keys than there are here, as in one step of a ring.
    pub lse: Tensor<'a>,
    /// The gradient of `out`.
    pub dout: Tensor<'a>,
    /// The gradient of `lse`; absent: zeros.
    pub dlse: Option<Tensor<'a>>,
    /// The gradient of q: as q; of q's type or f32.
    pub dq: TensorMut<'a>,
    /// As k; of q's type or f32.
    pub dk: TensorMut<'a>,
    /// As v; of q's type or f32.
    pub dv: TensorMut<'a>,
    /// As bias, summed where that is broadcast; f32 or its type.
    pub dbias: Option<TensorMut<'a>>,
    /// As sinks.
    pub dsinks: Option<TensorMut<'a>>,
    /// As alibi.
    pub dalibi: Option<TensorMut<'a>>,
}

impl<'a> Inputs<'a> {
    /// Without anything that may be absent.
    pub fn new(q: Tensor<'a>, k: Tensor<'a>, v: Tensor<'a>) -> Inputs<'a> {
        Inputs {
            q,
            k,
            v,
            bias: None,
            mask: None,
            alibi: None,
            sinks: None,
            q_starts: None,
            kv_starts: None,
            kv_lengths: None,
            page_table: None,
            seed: None,
        }
    }
}

impl<'a> Forward<'a> {
    /// Without `lse`.
    pub fn new(inputs: Inputs<'a>, out: TensorMut<'a>) -> Forward<'a> {
        Forward { inputs, out, lse: None }
    }
}

impl<'a> Backward<'a> {
    /// For the gradients of q, k and v.
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        inputs: Inputs<'a>,
        out: Tensor<'a>,
        lse: Tensor<'a>,
        dout: Tensor<'a>,
        dq: TensorMut<'a>,
        dk: TensorMut<'a>,
        dv: TensorMut<'a>,
    ) -> Backward<'a> {
        let (dlse, dbias, dsinks, dalibi) = (None, None, None, None);
        Backward { inputs, out, lse, dout, dlse, dq, dk, dv, dbias, dsinks, dalibi }
    }
}

/// [`Forward`] or [`Backward`]: what a problem is read off, and a plan runs with.
pub trait Arguments: sealed::Sealed {}

impl Arguments for Forward<'_> {}
impl Arguments for Backward<'_> {}

pub(crate) mod sealed {
    use super::*;

    pub trait Sealed {
        /// As C has them; all on `device`, if one is given: addresses of another would be taken for
        /// its own.
        fn raw(&self, device: Option<Device>) -> Result<sys::rapt_arguments>;
    }
}

use sealed::Sealed;

fn check_place(name: &str, place: Device, device: Option<Device>) -> Result<()> {
    match device {
        Some(device) if device != place => Err(Error::invalid(format!(
            "{name} lies on {place}, and this runs on {device}; copy it into a Buffer there"
        ))),
        _ => Ok(()),
    }
}

macro_rules! put {
    ($device:ident, $raw:ident, $($name:ident = $tensor:expr),* $(,)?) => {
        $(if let Some(tensor) = $tensor {
            check_place(stringify!($name), tensor.device, $device)?;
            $raw.$name = tensor.raw;
        })*
    };
}

impl Sealed for Inputs<'_> {
    fn raw(&self, device: Option<Device>) -> Result<sys::rapt_arguments> {
        let mut raw = sys::rapt_arguments::new();
        put!(
            device,
            raw,
            q = Some(self.q),
            k = Some(self.k),
            v = Some(self.v),
            bias = self.bias,
            mask = self.mask,
            alibi = self.alibi,
            sinks = self.sinks,
            q_starts = self.q_starts,
            kv_starts = self.kv_starts,
            kv_lengths = self.kv_lengths,
            page_table = self.page_table,
            seed = self.seed,
        );
        Ok(raw)
    }
}

impl Sealed for Forward<'_> {
    fn raw(&self, device: Option<Device>) -> Result<sys::rapt_arguments> {
        let mut raw = self.inputs.raw(device)?;
        put!(device, raw, out = Some(&self.out), lse = &self.lse);
        Ok(raw)
    }
}

impl Sealed for Backward<'_> {
    fn raw(&self, device: Option<Device>) -> Result<sys::rapt_arguments> {
        let mut raw = self.inputs.raw(device)?;
        put!(
            device,
            raw,
            out = Some(&self.out),
            lse = Some(&self.lse),
            dout = Some(&self.dout),
            dlse = &self.dlse,
            dq = Some(&self.dq),
            dk = Some(&self.dk),
            dv = Some(&self.dv),
            dbias = &self.dbias,
            dsinks = &self.dsinks,
            dalibi = &self.dalibi,
        );
        Ok(raw)
    }
}
