// SPDX-License-Identifier: Apache-2.0

// A busy program under the crate pyroscope: burns CPU time in functions whose names the test then asks for, sends, and ends.
use pyroscope::backend::{pprof_backend, BackendConfig, PprofConfig};
use pyroscope::pyroscope::PyroscopeAgentBuilder;
use std::hint::black_box;
use std::time::Duration;

// CPU time of the process.
fn used() -> Duration {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut t) };
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}

#[inline(never)]
fn burn_hot_loop(burn: Duration) -> u64 {
    let until = used() + burn;
    let mut sum = 0u64;
    while used() < until {
        for i in 0..1_000_000u64 {
            sum = black_box(sum ^ i);
        }
    }
    sum
}

#[inline(never)]
fn burn_tagged(burn: Duration) -> u64 {
    black_box(burn_hot_loop(burn))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let agent = PyroscopeAgentBuilder::new(&args[1], &args[2], 100, "pyroscope-rs", env!("CARGO_PKG_VERSION"), pprof_backend(PprofConfig::default(), BackendConfig::default()))
        .tags(vec![("kit", "rust"), ("team.name", "a b+c")])
        .build()?;
    let running = agent.start()?;
    let mut sum = burn_hot_loop(Duration::from_millis(900));
    let (add_tag, remove_tag) = running.tag_wrapper();
    add_tag("job".to_string(), "tagged".to_string())?;
    sum ^= burn_tagged(Duration::from_millis(700));
    remove_tag("job".to_string(), "tagged".to_string())?;
    running.stop()?.shutdown();
    println!("done {}", sum);
    Ok(())
}
