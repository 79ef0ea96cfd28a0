//! The processes of the shop.

use crate::Failed;
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};

/// A process of the shop. Dropping this value kills the process.
pub struct Process {
    pub address: String,
    child: Child,
    _stdout: BufReader<ChildStdout>,
}

impl Process {
    /// Starts this program as a service, and waits until the service listens.
    pub async fn start(environment: &[(&str, &str)]) -> Result<Self, Failed> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("serve").envs(environment.iter().copied()).env("ADDRESS", "127.0.0.1:0");
        let mut child = command.stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
        let mut stdout = BufReader::new(child.stdout.take().ok_or("stdout is not piped")?);
        let mut line = String::new();
        stdout.read_line(&mut line).await?;
        let address = line.trim().strip_prefix("http://").ok_or("a process of the shop did not start")?.to_owned();
        Ok(Self { address, child, _stdout: stdout })
    }

    /// Kills the process without a cleanup, like a machine failure.
    pub async fn kill(&mut self) -> Result<(), Failed> {
        Ok(self.child.kill().await?)
    }
}
