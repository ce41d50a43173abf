//! What `include/rapt/rapt.h` declares, again for Rust. `header_test` compares the two word by word,
//! so that a struct or a function that changes there cannot stay as it was here.
#![allow(non_camel_case_types)]

use std::os::raw::{c_char, c_void};

#[cfg(test)]
mod header_test;

pub const RAPT_OK: i32 = 0;

/// `rapt_executor.parallel_for`, and the body that it is given.
pub type parallel_for = unsafe extern "C" fn(*mut c_void, i64, body, *mut c_void);
pub type body = unsafe extern "C" fn(*mut c_void, i64);

/// Only pointers to these exist.
pub enum rapt_plan {}
pub enum rapt_buffer {}

macro_rules! structs {
    ($(struct $name:ident { $($field:ident: $type:ty,)* })*) => {
        $(
            #[repr(C)]
            #[derive(Clone, Copy, Debug)]
            pub struct $name { $(pub $field: $type,)* }

            impl $name {
                /// Of zeros, which stand for defaults and for what is absent throughout.
                pub fn zeroed() -> Self {
                    // SAFETY: numbers, arrays of them, pointers and optional functions may be zero.
                    unsafe { std::mem::zeroed() }
                }
            }
        )*

        /// Name, size, and name and type of each field.
        #[cfg(test)]
        const STRUCTS: &[(&str, usize, &[(&str, &str)])] = &[$((
            stringify!($name),
            std::mem::size_of::<$name>(),
            &[$((stringify!($field), stringify!($type)),)*],
        ),)*];
    };
}

macro_rules! functions {
    ($(fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        extern "C" {
            $(pub fn $name($($argument: $type),*) $(-> $result)?;)*
        }

        /// Name, and what stands behind it.
        #[cfg(test)]
        const FUNCTIONS: &[(&str, &str)] = &[$((
            stringify!($name),
            stringify!(($($argument: $type),*) $(-> $result)?),
        ),)*];
    };
}

structs! {
    struct rapt_tensor {
        data: *mut c_void,
        dtype: i32,
        size: [i64; 4],
        stride: [i64; 4],
    }
    struct rapt_arguments {
        struct_size: usize,
        q: rapt_tensor,
        k: rapt_tensor,
        v: rapt_tensor,
        out: rapt_tensor,
        lse: rapt_tensor,
        bias: rapt_tensor,
        mask: rapt_tensor,
        alibi: rapt_tensor,
        sinks: rapt_tensor,
        q_starts: rapt_tensor,
        kv_starts: rapt_tensor,
        kv_lengths: rapt_tensor,
        page_table: rapt_tensor,
        dout: rapt_tensor,
        dlse: rapt_tensor,
        dq: rapt_tensor,
        dk: rapt_tensor,
        dv: rapt_tensor,
        dbias: rapt_tensor,
        dsinks: rapt_tensor,
        dalibi: rapt_tensor,
        seed: rapt_tensor,
    }
    struct rapt_options {
        struct_size: usize,
        causal: i32,
        batch_invariant: i32,
        tf32: i32,
        has_window_left: i32,
        has_window_right: i32,
        has_offset: i32,
        has_max_q_len: i32,
        has_max_kv_len: i32,
        has_total_kv: i32,
        has_scale: i32,
        scale: f32,
        softcap: f32,
        window_left: i64,
        window_right: i64,
        offset: i64,
        max_q_len: i64,
        max_kv_len: i64,
        total_kv: i64,
        window_first_keys: i64,
        dropout: f64,
        row_invariant: i32,
    }
    struct rapt_executor {
        struct_size: usize,
        context: *mut c_void,
        parallel_for: Option<parallel_for>,
        concurrency: i32,
        reserved: i32,
    }
    struct rapt_plan_options {
        struct_size: usize,
        kernel: *const c_char,
        config: *const c_char,
        executor: *const rapt_executor,
        has_workspace_limit: i32,
        workspace_limit: usize,
    }
    struct rapt_launch {
        struct_size: usize,
        stream: *mut c_void,
        workspace: *mut c_void,
        workspace_bytes: usize,
    }
    struct rapt_partial {
        struct_size: usize,
        out: rapt_tensor,
        lse: rapt_tensor,
    }
    struct rapt_merge_options {
        struct_size: usize,
        stream: *mut c_void,
        executor: *const rapt_executor,
    }
    struct rapt_device_properties {
        struct_size: usize,
        backend: i32,
        index: i32,
        threads: i32,
        multiprocessors: i32,
        f32_flops: f64,
        matrix_flops: f64,
        read_bandwidth: f64,
        copy_bandwidth: f64,
        memory_bytes: f64,
        cache_bytes: f64,
        chip: [c_char; 128],
        features: [c_char; 128],
    }
}

macro_rules! sized {
    ($($name:ident)*) => {
        $(impl $name {
            /// As its `init` function leaves it.
            pub fn new() -> Self {
                Self { struct_size: std::mem::size_of::<Self>(), ..Self::zeroed() }
            }
        })*
    };
}

sized! {
    rapt_arguments rapt_options rapt_executor rapt_plan_options rapt_launch rapt_partial
    rapt_merge_options rapt_device_properties
}

functions! {
    fn rapt_version() -> *const c_char;
    fn rapt_last_error() -> *const c_char;
    fn rapt_tensor_dense(tensor: *mut rapt_tensor, data: *const c_void, dtype: i32, axes: i32,
                         size: *const i64) -> i32;
    fn rapt_tensor_transposed(result: *mut rapt_tensor, tensor: *const rapt_tensor, axis: i32,
                              other: i32) -> i32;
    fn rapt_attention(arguments: *const rapt_arguments, options: *const rapt_options,
                      device: *const c_char) -> i32;
    fn rapt_attention_backward(arguments: *const rapt_arguments, options: *const rapt_options,
                               device: *const c_char) -> i32;
    fn rapt_plan_create_from_problem(problem: *const c_char, device: *const c_char,
                                     plan_options: *const rapt_plan_options,
                                     plan: *mut *mut rapt_plan) -> i32;
    fn rapt_plan_destroy(plan: *mut rapt_plan);
    fn rapt_plan_run(plan: *const rapt_plan, arguments: *const rapt_arguments,
                     launch: *const rapt_launch) -> i32;
    fn rapt_plan_workspace_bytes(plan: *const rapt_plan, bytes: *mut usize) -> i32;
    fn rapt_plan_kernel(plan: *const rapt_plan, name: *mut *const c_char) -> i32;
    fn rapt_plan_config(plan: *const rapt_plan, buffer: *mut c_char, capacity: usize,
                        needed: *mut usize) -> i32;
    fn rapt_plan_problem(plan: *const rapt_plan, buffer: *mut c_char, capacity: usize,
                         needed: *mut usize) -> i32;
    fn rapt_problem_of(arguments: *const rapt_arguments, options: *const rapt_options,
                       buffer: *mut c_char, capacity: usize, needed: *mut usize) -> i32;
    fn rapt_explain(problem: *const c_char, device: *const c_char, buffer: *mut c_char,
                    capacity: usize, needed: *mut usize) -> i32;
    fn rapt_check(arguments: *const rapt_arguments, options: *const rapt_options,
                  device: *const c_char) -> i32;
    fn rapt_merge(first: *const rapt_partial, second: *const rapt_partial,
                  result: *const rapt_partial, device: *const c_char,
                  options: *const rapt_merge_options) -> i32;
    fn rapt_buffer_create(device: *const c_char, bytes: usize, buffer: *mut *mut rapt_buffer) -> i32;
    fn rapt_buffer_destroy(buffer: *mut rapt_buffer);
    fn rapt_buffer_data(buffer: *const rapt_buffer, data: *mut *mut c_void) -> i32;
    fn rapt_buffer_copy_from_host(buffer: *mut rapt_buffer, source: *const c_void, bytes: usize) -> i32;
    fn rapt_buffer_copy_to_host(buffer: *const rapt_buffer, target: *mut c_void, bytes: usize) -> i32;
    fn rapt_kernel_count(count: *mut i32) -> i32;
    fn rapt_kernel_name(index: i32, name: *mut *const c_char) -> i32;
    fn rapt_device_count(count: *mut i32) -> i32;
    fn rapt_device_name(index: i32, buffer: *mut c_char, capacity: usize, needed: *mut usize) -> i32;
    fn rapt_device_describe(device: *const c_char, properties: *mut rapt_device_properties) -> i32;
}

#[cfg(test)]
extern "C" {
    fn rapt_struct_size(name: *const c_char, size: *mut usize) -> i32;
}
