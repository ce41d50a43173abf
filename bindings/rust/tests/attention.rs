//! What the crate adds to rapt: types, lifetimes, closures, errors. Small problems with known results.

use rapt::*;
use std::sync::atomic::{AtomicUsize, Ordering};

const SIZE: [usize; 4] = [1, 4, 2, 8]; // batch, seq, head, dim
const COUNT: usize = 64;

/// Equal keys weigh equally: a causal row's result is the mean of the tokens so far.
fn tokens() -> Vec<f32> {
    (0..COUNT).map(|i| (i / 16) as f32).collect()
}

fn means() -> Vec<f32> {
    (0..COUNT).map(|i| (i / 16) as f32 / 2.0).collect()
}

fn causal() -> Options {
    Options { causal: true, ..Default::default() }
}

fn wave(count: usize, step: f64) -> Vec<f32> {
    (1..=count).map(|i| (step * i as f64).sin() as f32).collect()
}

fn assert_close(ours: &[f32], expected: &[f32]) {
    assert_eq!(ours.len(), expected.len());
    for (at, (ours, expected)) in ours.iter().zip(expected).enumerate() {
        assert!((ours - expected).abs() < 1e-4, "element {at} is {ours}, expected {expected}");
    }
}

/// Forward over `keys` of the four tokens: out and lse.
fn attend(q: &[f32], kv: &[f32], keys: std::ops::Range<usize>) -> Result<(Vec<f32>, Vec<f32>)> {
    let (mut out, mut lse) = (vec![0f32; COUNT], vec![0f32; 8]);
    let kv = Tensor::dense(kv, &SIZE)?.narrow(1, keys)?;
    let inputs = Inputs::new(Tensor::dense(q, &SIZE)?, kv, kv);
    let mut forward = Forward::new(inputs, TensorMut::dense(&mut out, &SIZE)?);
    forward.lse = Some(TensorMut::dense(&mut lse, &[1, 2, 4])?);
    attention(&mut forward, &Options::default(), Device::Cpu)?;
    Ok((out, lse))
}

#[test]
fn a_call_gives_the_mean_of_the_tokens_so_far() -> Result<()> {
    let (q, v, mut out) = (vec![0.5f32; COUNT], tokens(), vec![-1f32; COUNT]);
    let q = Tensor::dense(&q, &SIZE)?;
    let inputs = Inputs::new(q, q, Tensor::dense(&v, &SIZE)?);
    let mut arguments = Forward::new(inputs, TensorMut::dense(&mut out, &SIZE)?);
    attention(&mut arguments, &causal(), Device::Cpu)?;
    assert_close(&out, &means());
    Ok(())
}

#[test]
fn bfloat16_goes_in_by_its_bits() -> Result<()> {
    let bits = |value: f32| Bf16((value.to_bits() >> 16) as u16);
    let (q, v) = (vec![bits(0.5); COUNT], tokens().into_iter().map(bits).collect::<Vec<_>>());
    let mut out = vec![Bf16(0); COUNT];
    let q = Tensor::dense(&q, &SIZE)?;
    let inputs = Inputs::new(q, q, Tensor::dense(&v, &SIZE)?);
    let mut arguments = Forward::new(inputs, TensorMut::dense(&mut out, &SIZE)?);
    assert!(Problem::of(&arguments, &causal())?.to_string().contains("bf16 causal"));
    attention(&mut arguments, &causal(), Device::Cpu)?;
    assert_eq!(out, means().into_iter().map(bits).collect::<Vec<_>>());
    Ok(())
}

#[test]
fn every_option_reaches_the_problem() -> Result<()> {
    let (q, mut out, mut lse) = (vec![0f32; COUNT], vec![0f32; COUNT], vec![0f32; 8]);
    let (pairs, mask, heads) = (vec![0f32; 16], vec![1u8; 16], vec![0f32; 2]);
    let q = Tensor::dense(&q, &SIZE)?;
    let mut inputs = Inputs::new(q, q, q);
    inputs.bias = Some(Tensor::dense(&pairs, &[1, 1, 4, 4])?);
    inputs.mask = Some(Tensor::dense(&mask, &[1, 1, 4, 4])?);
    inputs.alibi = Some(Tensor::dense(&heads, &[2])?);
    inputs.sinks = Some(Tensor::dense(&heads, &[2])?);
    let mut arguments = Forward::new(inputs, TensorMut::dense(&mut out, &SIZE)?);
    arguments.lse = Some(TensorMut::dense(&mut lse, &[1, 2, 4])?);
    let options = Options {
        window: Window { left: Some(3), right: Some(1), first_keys: 2 },
        offset: Some(5),
        scale: Some(0.25),
        softcap: 30.0,
        batch_invariant: true,
        tf32: true,
        ..Default::default()
    };
    assert_eq!(
        Problem::of(&arguments, &options)?.to_string(),
        "b1 h2 s4 d8 f32 window3:1+2 offset5 bias:qk mask:qk alibi softcap30 sinks scale0.25 lse \
         batch-invariant tf32"
    );
    Ok(())
}

#[test]
fn dropout_has_a_seed() -> Result<()> {
    let (q, seed, mut out) = (vec![0.5f32; COUNT], vec![1i64, 2], vec![0f32; COUNT]);
    let (q, v) = (Tensor::dense(&q, &SIZE)?, tokens());
    let mut inputs = Inputs::new(q, q, Tensor::dense(&v, &SIZE)?);
    inputs.seed = Some(Tensor::dense(&seed, &[2])?);
    let mut arguments = Forward::new(inputs, TensorMut::dense(&mut out, &SIZE)?);
    let options = Options { dropout: 0.5, ..Default::default() };
    assert_eq!(Problem::of(&arguments, &options)?.to_string(), "b1 h2 s4 d8 f32 dropout0.5");
    attention(&mut arguments, &options, Device::Cpu)?;
    let without = Problem::of(&arguments, &Options::default()).unwrap_err();
    assert!(without.to_string().contains("seed is given but the problem has none"));

    let (seeds, mut again) = (vec![7i64, 8, 1, 2], vec![0f32; COUNT]);
    inputs.seed = Some(Tensor::dense(&seeds, &[4])?.narrow(0, 2..4)?);
    let mut arguments = Forward::new(inputs, TensorMut::dense(&mut again, &SIZE)?);
    attention(&mut arguments, &options, Device::Cpu)?;
    assert_eq!(again, out);
    Ok(())
}

#[test]
fn packed_sequences_have_starts_and_bounds() -> Result<()> {
    let (q, mut out) = (vec![0.5f32; COUNT], vec![0f32; COUNT]);
    let starts = vec![0, 1, 4];
    let (q, v) = (Tensor::dense(&q, &SIZE)?, tokens());
    let mut inputs = Inputs::new(q, q, Tensor::dense(&v, &SIZE)?);
    inputs.q_starts = Some(Tensor::dense(&starts, &[3])?);
    inputs.kv_starts = inputs.q_starts;
    let mut arguments = Forward::new(inputs, TensorMut::dense(&mut out, &SIZE)?);
    let options = Options { max_q_len: Some(3), max_kv_len: Some(3), ..Default::default() };
    let problem = Problem::of(&arguments, &options)?.to_string();
    assert_eq!(problem, "b2 h2 s3 d8 f32 varlen4");
    attention(&mut arguments, &options, Device::Cpu)?;
    let expected: Vec<f32> = (0..COUNT).map(|i| if i < 16 { 0.0 } else { 2.0 }).collect();
    assert_close(&out, &expected);
    Ok(())
}

#[test]
fn many_threads_run_one_plan() -> Result<()> {
    let problem: Problem = "b1 h2 s4 d8 f32 causal".parse()?;
    let plan = Plan::new(&problem, Device::Cpu, &PlanOptions::default())?;
    assert_eq!(plan.problem()?, problem);
    let (q, v) = (vec![0.5f32; COUNT], tokens());
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| -> Result<Vec<f32>> {
                    let (mut out, mut workspace) = (vec![-1f32; COUNT], plan.workspace()?);
                    let q = Tensor::dense(&q, &SIZE)?;
                    let inputs = Inputs::new(q, q, Tensor::dense(&v, &SIZE)?);
                    let mut arguments = Forward::new(inputs, TensorMut::dense(&mut out, &SIZE)?);
                    plan.run(&mut arguments, &mut workspace)?;
                    Ok(out)
                })
            })
            .collect();
        threads.into_iter().try_for_each(|thread| {
            assert_close(&thread.join().unwrap()?, &means());
            Ok(())
        })
    })
}

/// A plan that has to ask its threads: more rows than one piece holds.
fn run_with(executor: Executor) -> Result<Vec<f32>> {
    let size = [2, 128, 4, 16];
    let q = wave(2 * 128 * 4 * 16, 0.37);
    let mut out = vec![0f32; q.len()];
    let q = Tensor::dense(&q, &size)?;
    let mut arguments = Forward::new(Inputs::new(q, q, q), TensorMut::dense(&mut out, &size)?);
    let problem = Problem::of(&arguments, &causal())?;
    let options = PlanOptions { executor: Some(executor), ..Default::default() };
    let plan = Plan::new(&problem, Device::Cpu, &options)?;
    drop(options); // the plan keeps what it needs of it
    let mut workspace = plan.workspace()?;
    plan.run(&mut arguments, &mut workspace)?;
    Ok(out)
}

#[test]
fn a_closure_lends_its_threads() -> Result<()> {
    static PIECES: AtomicUsize = AtomicUsize::new(0);
    let threads = Executor::new(2, |work| {
        assert!(work.count() > 1);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while work.run_one() {
                        PIECES.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
    });
    let ours = run_with(threads)?;
    assert!(PIECES.load(Ordering::Relaxed) > 1);
    let lazy = Executor::new(2, |_| {}); // who leaves everything to the caller
    assert_eq!(ours, run_with(lazy)?);
    Ok(())
}

#[test]
fn a_panic_of_a_closure_is_the_callers() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let caught = std::panic::catch_unwind(|| run_with(Executor::new(2, |_| panic!("no threads"))));
    std::panic::set_hook(hook);
    assert_eq!(*caught.unwrap_err().downcast::<&str>().unwrap(), "no threads");
}

#[test]
fn gradients_are_those_of_the_result() -> Result<()> {
    let (q, kv, dout) = (wave(COUNT, 0.3), wave(COUNT, 0.7), wave(COUNT, 1.1));
    let (out, lse) = attend(&q, &kv, 0..4)?;
    let [mut dq, mut dk, mut dv] = [(); 3].map(|_| vec![0f32; COUNT]);
    let tensor = Tensor::dense(&kv, &SIZE)?;
    let mut backward = Backward::new(
        Inputs::new(Tensor::dense(&q, &SIZE)?, tensor, tensor),
        Tensor::dense(&out, &SIZE)?,
        Tensor::dense(&lse, &[1, 2, 4])?,
        Tensor::dense(&dout, &SIZE)?,
        TensorMut::dense(&mut dq, &SIZE)?,
        TensorMut::dense(&mut dk, &SIZE)?,
        TensorMut::dense(&mut dv, &SIZE)?,
    );
    attention_backward(&mut backward, &Options::default(), Device::Cpu)?;
    let loss = |q: &[f32], kv: &[f32]| -> Result<f32> {
        Ok(attend(q, kv, 0..4)?.0.iter().zip(&dout).map(|(out, dout)| out * dout).sum())
    };
    let step = 1e-2;
    for at in [0, 17, 63] {
        let moved = |values: &[f32], by: f32| {
            let mut values = values.to_vec();
            values[at] += by;
            values
        };
        let slope = (loss(&moved(&q, step), &kv)? - loss(&moved(&q, -step), &kv)?) / (2.0 * step);
        assert!((slope - dq[at]).abs() < 1e-3, "dq[{at}] is {}, the slope {slope}", dq[at]);
        let slope = (loss(&q, &moved(&kv, step))? - loss(&q, &moved(&kv, -step))?) / (2.0 * step);
        let ours = dk[at] + dv[at];
        assert!((slope - ours).abs() < 1e-3, "dk + dv [{at}] is {ours}, the slope {slope}");
    }
    Ok(())
}

#[test]
fn two_sets_of_keys_merge_into_the_whole() -> Result<()> {
    let (q, kv) = (wave(COUNT, 0.3), wave(COUNT, 0.7));
    let (whole, _) = attend(&q, &kv, 0..4)?;
    let (mut first, mut first_lse) = attend(&q, &kv, 0..1)?;
    let (second, second_lse) = attend(&q, &kv, 1..4)?;
    let (mut out, mut lse) = (vec![0f32; COUNT], vec![0f32; 8]);
    let other = Partial {
        out: Tensor::dense(&second, &SIZE)?,
        lse: Tensor::dense(&second_lse, &[1, 2, 4])?,
    };
    let one =
        Partial { out: Tensor::dense(&first, &SIZE)?, lse: Tensor::dense(&first_lse, &[1, 2, 4])? };
    let mut result = PartialMut {
        out: TensorMut::dense(&mut out, &SIZE)?,
        lse: TensorMut::dense(&mut lse, &[1, 2, 4])?,
    };
    let executor = Executor::new(1, Work::run);
    merge(&one, &other, &mut result, Some(&executor))?;
    assert_close(&out, &whole);
    let mut result = PartialMut {
        out: TensorMut::dense(&mut first, &SIZE)?,
        lse: TensorMut::dense(&mut first_lse, &[1, 2, 4])?,
    };
    merge_into(&mut result, &other, None)?;
    assert_eq!((first, first_lse), (out, lse));
    Ok(())
}

#[test]
fn buffers_hold_tensors() -> Result<()> {
    let (v, mut out) = (tokens(), vec![0f32; COUNT]);
    let mut memory = [(); 3].map(|_| Buffer::new(Device::Cpu, COUNT * 4).unwrap());
    memory[0].copy_from_host(&vec![0.5f32; COUNT])?;
    memory[1].copy_from_host(&v)?;
    let [q, v, result] = &mut memory;
    let (q, v) = (q.tensor::<f32>(&SIZE)?, v.tensor::<f32>(&SIZE)?);
    let mut arguments = Forward::new(Inputs::new(q, q, v), result.tensor_mut::<f32>(&SIZE)?);
    let problem = Problem::of(&arguments, &causal())?;
    let plan = Plan::new(&problem, Device::Cpu, &PlanOptions::default())?;
    let mut workspace = plan.workspace()?;
    // SAFETY: the CPU is done when it returns.
    unsafe { plan.launch(&mut arguments, &mut workspace, std::ptr::null_mut())? };
    result.copy_to_host(&mut out)?;
    assert_close(&out, &means());
    let sentence = result.tensor::<f32>(&[COUNT + 1]).unwrap_err().to_string();
    assert_eq!(sentence, "a tensor of size [65] takes 260 bytes; the buffer has 256");
    Ok(())
}

#[test]
fn plans_say_what_they_are() -> Result<()> {
    let problem = Problem::parse("b1 h2 s4 d8 f32")?;
    let named = PlanOptions { kernel: "cpu.naive".into(), ..Default::default() };
    let plan = Plan::new(&problem, Device::Cpu, &named)?;
    assert_eq!((plan.kernel(), plan.device()), ("cpu.naive", Device::Cpu));
    assert_eq!(plan.config()?, "");
    assert!(problem.explain(Device::Cpu)?.contains("cpu.naive"));
    assert!(kernels()?.contains(&"cpu.naive"));
    assert_eq!(devices()?[0], Device::Cpu);
    assert!(Device::Cpu.properties()?.threads >= 1);
    assert_eq!(version(), env!("CARGO_PKG_VERSION"));
    let limited = PlanOptions { workspace_limit: Some(1), ..named };
    let error = Plan::new(&problem, Device::Cpu, &limited).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    Ok(())
}

fn kind_and_sentence<T: std::fmt::Debug>(result: Result<T>) -> (ErrorKind, String) {
    let error = result.unwrap_err();
    (error.kind(), error.to_string())
}

#[test]
fn wrong_input_is_a_sentence() -> Result<()> {
    let (data, mut out) = (vec![0f32; COUNT], vec![0f32; COUNT]);
    let q = Tensor::dense(&data, &SIZE)?;
    let (kind, sentence) = kind_and_sentence(Tensor::dense(&data, &[1, 4, 2, 9]));
    assert_eq!(kind, ErrorKind::InvalidArgument);
    assert_eq!(sentence, "a tensor of size [1, 4, 2, 9] has 72 elements; 64 are given");
    assert!(Tensor::dense(&data, &[usize::MAX, 2]).is_err());
    assert_eq!(
        kind_and_sentence(Tensor::dense(&data, &[1, 1, 4, 2, 8])).1,
        "axes is 5; a tensor has 0 to 4 axes"
    );
    assert_eq!(kind_and_sentence(q.narrow(1, 3..5)).1, "3..5 is no part of axis 1, which has 4");
    assert!(q.narrow(4, 0..0).is_err() && q.transposed(0, 4).is_err());
    assert_eq!(
        kind_and_sentence("gpu".parse::<Device>()).1,
        "'gpu' is no device; write cpu, cuda:0 or hip:0"
    );
    assert_eq!("hip:1".parse::<Device>()?.to_string(), "hip:1");
    assert!(Device::Cuda(4096).properties().is_err());
    assert!(Problem::parse("b1 h2\0").is_err());

    let problem = Problem::parse("b1 h2 s4 d8 f32")?;
    let nobody = PlanOptions { kernel: "cpu.nobody".into(), ..Default::default() };
    let (kind, sentence) = kind_and_sentence(Plan::new(&problem, Device::Cpu, &nobody));
    assert_eq!(kind, ErrorKind::NotFound);
    assert!(sentence.starts_with("there is no kernel 'cpu.nobody'"), "{sentence}");

    let short = q.narrow(1, 0..3)?;
    let mut other = Forward::new(Inputs::new(q, short, q), TensorMut::dense(&mut out, &SIZE)?);
    let (kind, sentence) = kind_and_sentence(attention(&mut other, &causal(), Device::Cpu));
    assert_eq!(kind, ErrorKind::InvalidArgument, "{sentence}");
    Ok(())
}

#[test]
fn tensors_of_another_device_are_refused() -> Result<()> {
    let (data, mut out) = (vec![0f32; COUNT], vec![0f32; COUNT]);
    let q = Tensor::dense(&data, &SIZE)?;
    // SAFETY: nobody looks at it.
    let far =
        unsafe { Tensor::from_raw(data.as_ptr().cast(), DType::F32, &SIZE, Device::Cuda(0)) }?;
    let mut arguments = Forward::new(Inputs::new(q, far, q), TensorMut::dense(&mut out, &SIZE)?);
    let expected = "k lies on cuda:0, and this runs on cpu; copy it into a Buffer there";
    let result = attention(&mut arguments, &Options::default(), Device::Cpu);
    assert_eq!(kind_and_sentence(result).1, expected);
    let problem = Problem::of(&arguments, &Options::default())?;
    let plan = Plan::new(&problem, Device::Cpu, &PlanOptions::default())?;
    let mut workspace = plan.workspace()?;
    assert_eq!(kind_and_sentence(plan.run(&mut arguments, &mut workspace)).1, expected);
    Ok(())
}

#[test]
fn lengths_that_are_wrong_are_found_before_they_are_used() -> Result<()> {
    let (data, lengths, mut out) = (vec![0f32; COUNT], vec![5i32], vec![0f32; COUNT]);
    let q = Tensor::dense(&data, &SIZE)?;
    let mut inputs = Inputs::new(q, q, q);
    inputs.kv_lengths = Some(Tensor::dense(&lengths, &[1])?);
    let mut arguments = Forward::new(inputs, TensorMut::dense(&mut out, &SIZE)?);
    let expected = Options { total_kv: Some(3), ..Default::default() };
    assert_eq!(Problem::of(&arguments, &expected)?.to_string(), "b1 h2 s4 d8 f32 kv_lengths3");
    let (_, sentence) = kind_and_sentence(check(&arguments, &Options::default(), Device::Cpu));
    assert!(sentence.contains("kv_lengths[0] is 5"), "{sentence}");
    let result = attention(&mut arguments, &Options::default(), Device::Cpu);
    assert_eq!(kind_and_sentence(result).1, sentence);
    Ok(())
}
