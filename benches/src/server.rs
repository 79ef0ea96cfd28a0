//! The server, and readings of it.

use leasehold_test_support::{Binary, Connection, Server};
use std::{
    collections::BTreeMap,
    thread,
    time::{Duration, Instant},
};

/// The one server of a run.
pub(crate) struct BenchServer {
    server: Server,
}

/// The work of the server so far.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Reading {
    /// Calls and microseconds of each command.
    commands: BTreeMap<String, (f64, f64)>,
    /// Microseconds of processor time.
    processor: f64,
}

/// The work of the server between two readings.
#[derive(Debug, PartialEq)]
pub(crate) struct Done {
    pub(crate) calls: f64,
    pub(crate) micros: f64,
    pub(crate) processor: f64,
}

impl BenchServer {
    pub(crate) fn start() -> Result<Self, String> {
        let binary = Binary::redis().map_err(|_| "there is no Redis: run `cargo xtask servers`".to_owned())?;
        Ok(Self { server: Server::builder().binary(&binary).start() })
    }

    pub(crate) fn url(&self) -> String {
        self.server.url()
    }

    pub(crate) fn version(&self) -> String {
        self.server.binary().to_string()
    }

    pub(crate) fn reading(&self) -> Reading {
        let info = |section| self.server.command(&["INFO", section]).as_str().unwrap_or_default().to_owned();
        Reading::parse(&info("commandstats"), &info("cpu"))
    }

    pub(crate) fn empty(&self) {
        self.server.command(&["FLUSHALL"]);
    }

    /// The number of keys.
    pub(crate) fn keys(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a share is made of it")]
        let keys = self.server.command(&["DBSIZE"]).as_int().unwrap_or_default() as f64;
        keys
    }

    /// The waiters in the queue of a fair lock, which leasehold and Redisson keep in the same place.
    pub(crate) fn queued(&self, name: &str) -> usize {
        let length = self.server.command(&["LLEN", &format!("redisson_lock_queue:{{{name}}}")]).as_int();
        length.and_then(|length| usize::try_from(length).ok()).unwrap_or_default()
    }

    /// The 99th percentile of PINGs of another client, one after another, over a while; in microseconds.
    pub(crate) fn ping(&self, over: Duration) -> Result<f64, String> {
        let failed = |error| format!("PING failed: {error}");
        let mut other = Connection::connect(self.server.addr()).map_err(failed)?;
        let begun = Instant::now();
        let mut times = Vec::new();
        while begun.elapsed() < over {
            let sent = Instant::now();
            other.command(&["PING"]).map_err(failed)?;
            times.push(sent.elapsed().as_secs_f64() * 1e6);
            thread::sleep(Duration::from_micros(500));
        }
        times.sort_unstable_by(f64::total_cmp);
        Ok(times[times.len().saturating_sub(1) * 99 / 100])
    }
}

impl Reading {
    /// Reads `cmdstat_evalsha:calls=2,usec=31,…` and `used_cpu_user:1.25`.
    fn parse(commandstats: &str, cpu: &str) -> Self {
        let command = |line: &str| {
            let (name, fields) = line.strip_prefix("cmdstat_")?.split_once(':')?;
            let field = |name: &str| {
                fields.split(',').find_map(|field| field.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
            };
            Some((name.to_owned(), (field("calls")?, field("usec")?)))
        };
        let seconds = |line: &str| {
            let (name, value) = line.split_once(':')?;
            ["used_cpu_user", "used_cpu_sys"].contains(&name).then(|| value.trim().parse::<f64>().ok())?
        };
        Self {
            commands: commandstats.lines().filter_map(command).collect(),
            processor: cpu.lines().filter_map(seconds).sum::<f64>() * 1e6,
        }
    }

    /// The work since an earlier reading; of the commands, these alone count.
    pub(crate) fn since(&self, before: &Self, commands: &[&str]) -> Done {
        let sum = |reading: &Self| {
            let of = commands.iter().filter_map(|command| reading.commands.get(*command));
            of.fold((0.0, 0.0), |sum, of| (sum.0 + of.0, sum.1 + of.1))
        };
        let ((calls, micros), (calls_before, micros_before)) = (sum(self), sum(before));
        Done {
            calls: calls - calls_before,
            micros: micros - micros_before,
            processor: self.processor - before.processor,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CPU: &str = "# CPU\r\nused_cpu_sys:0.500000\r\nused_cpu_user:1.250000\r\nused_cpu_sys_children:9.0\r\n";

    #[test]
    fn commands_within_scripts_are_not_counted_twice() {
        let before = Reading::parse("cmdstat_evalsha:calls=1,usec=100,usec_per_call=1.0\r\n", CPU);
        let later = "# Commandstats\r\ncmdstat_evalsha:calls=4,usec=160,usec_per_call=40.0\r\n\
                     cmdstat_hset:calls=3,usec=30,usec_per_call=1\r\ncmdstat_eval:calls=1,usec=7,usec_per_call=7\r\n";
        let done = Reading::parse(later, &CPU.replace("1.25", "1.75")).since(&before, &["eval", "evalsha"]);
        assert_eq!(done, Done { calls: 4.0, micros: 67.0, processor: 500_000.0 });
    }

    #[test]
    fn lines_of_other_sections_are_passed_over() {
        let reading = Reading::parse("cmdstat_set:nothing\r\ncalls=1,usec=2\r\n", "used_cpu_user:many\r\n");
        assert_eq!(reading, Reading::default());
    }
}
