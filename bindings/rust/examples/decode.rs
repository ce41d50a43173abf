//! A decode loop over a growing paged KV cache: one plan, run for every token.
//!
//! Each step appends one key and one value per sequence to the cache, taking a fresh page where the
//! last one is full, and attends from one query to all keys so far. Lengths and page table are data, so
//! the plan that was made before the first token serves for the last. At the end, every step's result
//! is compared with one causal attention over the whole, contiguous sequences.

use rapt::{
    attention, Device, Forward, Inputs, Options, Plan, PlanOptions, Problem, Result, Tensor,
    TensorMut,
};

const BATCH: usize = 2;
const HEADS: usize = 8;
const KV_HEADS: usize = 2;
const DIM: usize = 64;
const TOKENS: usize = 100;
const PAGE_SIZE: usize = 16;
const PAGES_PER_SEQUENCE: usize = (TOKENS + PAGE_SIZE - 1) / PAGE_SIZE;
const PAGES: usize = BATCH * PAGES_PER_SEQUENCE;
const KV_ROW: usize = KV_HEADS * DIM; // elements of one token
const Q_SIZE: [usize; 4] = [BATCH, TOKENS, HEADS, DIM];
const KV_SIZE: [usize; 4] = [BATCH, TOKENS, KV_HEADS, DIM];

/// Pages of keys and values shared by all sequences, and who has which.
struct Cache {
    k: Vec<f32>,
    v: Vec<f32>,
    lengths: Vec<i32>,
    table: Vec<i32>,
    next_page: i32,
}

impl Cache {
    fn new() -> Cache {
        let memory = vec![0f32; PAGES * PAGE_SIZE * KV_ROW];
        let (lengths, table) = (vec![0; BATCH], vec![-1; PAGES]);
        Cache { k: memory.clone(), v: memory, lengths, table, next_page: 0 }
    }

    fn append(&mut self, sequence: usize, key: &[f32], value: &[f32]) {
        let length = self.lengths[sequence] as usize;
        let entry = sequence * PAGES_PER_SEQUENCE + length / PAGE_SIZE;
        if length % PAGE_SIZE == 0 {
            self.table[entry] = self.next_page;
            self.next_page += 1;
        }
        let slot = self.table[entry] as usize * PAGE_SIZE + length % PAGE_SIZE;
        let place = slot * KV_ROW..(slot + 1) * KV_ROW;
        self.k[place.clone()].copy_from_slice(key);
        self.v[place].copy_from_slice(value);
        self.lengths[sequence] += 1;
    }

    /// The arguments of a step. The cache is lent to them, and cannot grow while they live.
    fn step<'a>(&'a self, q: Tensor<'a>, out: TensorMut<'a>) -> Result<Forward<'a>> {
        let size = [PAGES, PAGE_SIZE, KV_HEADS, DIM];
        let (k, v) = (Tensor::dense(&self.k, &size)?, Tensor::dense(&self.v, &size)?);
        let mut inputs = Inputs::new(q, k, v);
        inputs.kv_lengths = Some(Tensor::dense(&self.lengths, &[BATCH])?);
        inputs.page_table = Some(Tensor::dense(&self.table, &[BATCH, PAGES_PER_SEQUENCE])?);
        Ok(Forward::new(inputs, out))
    }
}

fn made_up_values(count: usize, step: f64) -> Vec<f32> {
    (1..=count).map(|i| (step * i as f64).sin() as f32).collect()
}

fn main() -> Result<()> {
    let q = made_up_values(Q_SIZE.iter().product(), 0.37);
    let k = made_up_values(KV_SIZE.iter().product(), 0.59);
    let v = made_up_values(KV_SIZE.iter().product(), 0.83);
    let (mut decoded, mut whole) = (vec![0f32; q.len()], vec![0f32; q.len()]);
    let options = Options { causal: true, ..Default::default() };
    let all_queries = Tensor::dense(&q, &Q_SIZE)?;

    // The queries and results of one step are slices of the whole: one token of every sequence.
    let mut cache = Cache::new();
    let first = TensorMut::dense(&mut decoded, &Q_SIZE)?.narrow(1, 0..1)?;
    let problem = Problem::of(&cache.step(all_queries.narrow(1, 0..1)?, first)?, &options)?;
    let plan = Plan::new(&problem, Device::Cpu, &PlanOptions::default())?;
    let mut workspace = plan.workspace()?;

    for token in 0..TOKENS {
        for sequence in 0..BATCH {
            let row = (sequence * TOKENS + token) * KV_ROW;
            cache.append(sequence, &k[row..row + KV_ROW], &v[row..row + KV_ROW]);
        }
        let out = TensorMut::dense(&mut decoded, &Q_SIZE)?.narrow(1, token..token + 1)?;
        let mut step = cache.step(all_queries.narrow(1, token..token + 1)?, out)?;
        plan.run(&mut step, &mut workspace)?;
    }

    let inputs =
        Inputs::new(all_queries, Tensor::dense(&k, &KV_SIZE)?, Tensor::dense(&v, &KV_SIZE)?);
    let mut all = Forward::new(inputs, TensorMut::dense(&mut whole, &Q_SIZE)?);
    attention(&mut all, &options, Device::Cpu)?;
    let difference = |(a, b): (&f32, &f32)| (a - b).abs();
    let largest = whole.iter().zip(&decoded).map(difference).fold(0f32, f32::max);

    println!("plan     {}", plan.problem()?);
    println!("kernel   {}, {} bytes of workspace", plan.kernel(), plan.workspace_bytes());
    println!("decoded  {TOKENS} tokens of {BATCH} sequences with that one plan");
    println!("differs  by at most {largest:.1e} from attention over the whole sequences");
    assert!(largest < 1e-5);
    Ok(())
}
