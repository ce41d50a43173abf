//! What is asked beside the tensors.

use crate::sys;

/// Which keys a query sees, and how scores are made. Everything has a default:
///
/// ```
/// let options = rapt::Options { causal: true, softcap: 30.0, ..Default::default() };
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// No key after the query's position.
    pub causal: bool,
    /// Which keys around its position a query sees.
    pub window: Window,
    /// Position of query 0 among the keys; absent: aligned at the end.
    pub offset: Option<i64>,
    /// Finite; absent: 1 / √dim.
    pub scale: Option<f32>,
    /// 0: none.
    pub softcap: f32,
    /// Probability that a pair is dropped, below 1, rounded to 1/256; 0: none. `Inputs::seed` says which.
    pub dropout: f64,
    /// A row's bits do not depend on what else is in the batch.
    pub batch_invariant: bool,
    /// Nor on other queries, on keys that it does not see, pages and packing. Implies `batch_invariant`.
    pub row_invariant: bool,
    /// Single TF32 products allowed for f32.
    pub tf32: bool,
    /// Of one packed sequence; absent: what can be.
    pub max_q_len: Option<i64>,
    /// Of one packed or paged sequence; absent: what can be.
    pub max_kv_len: Option<i64>,
    /// Expected sum of `kv_lengths`, for estimates only.
    pub total_kv: Option<i64>,
}

/// Keys from position − left to position + right, both included. An absent side is unbounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// How many keys before the position.
    pub left: Option<i64>,
    /// How many keys after it.
    pub right: Option<i64>,
    /// The first keys of a sequence, that the left bound does not hide.
    pub first_keys: i64,
}

impl Options {
    pub(crate) fn raw(&self) -> sys::rapt_options {
        let mut raw = sys::rapt_options::new();
        raw.causal = self.causal.into();
        raw.batch_invariant = self.batch_invariant.into();
        raw.row_invariant = self.row_invariant.into();
        raw.tf32 = self.tf32.into();
        raw.softcap = self.softcap;
        raw.dropout = self.dropout;
        raw.window_first_keys = self.window.first_keys;
        (raw.has_window_left, raw.window_left) = optional(self.window.left);
        (raw.has_window_right, raw.window_right) = optional(self.window.right);
        (raw.has_offset, raw.offset) = optional(self.offset);
        (raw.has_scale, raw.scale) = optional(self.scale);
        (raw.has_max_q_len, raw.max_q_len) = optional(self.max_q_len);
        (raw.has_max_kv_len, raw.max_kv_len) = optional(self.max_kv_len);
        (raw.has_total_kv, raw.total_kv) = optional(self.total_kv);
        raw
    }
}

/// (has, value) as C has them.
fn optional<T: Default>(value: Option<T>) -> (i32, T) {
    (value.is_some().into(), value.unwrap_or_default())
}
