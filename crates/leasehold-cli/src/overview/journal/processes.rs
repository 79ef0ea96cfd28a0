//! The processes of past holds, deduplicated.

use super::super::row::Process;
use std::collections::HashSet;
use std::sync::Arc;

/// Size of a process in bytes, without its texts.
const PROCESS_BYTES: usize = 200;

/// The deduplicated processes.
#[derive(Debug, Default)]
pub(super) struct Processes {
    all: HashSet<Arc<Process>>,
    bytes: usize,
    /// Number of dropped holds since the last removal of unused processes.
    forgotten: usize,
}

impl Processes {
    /// Returns the shared copy of a process.
    pub(super) fn share(&mut self, process: &Arc<Process>) -> Arc<Process> {
        if let Some(known) = self.all.get(process) {
            return known.clone();
        }
        self.bytes += bytes(process);
        self.all.insert(process.clone());
        process.clone()
    }

    /// Returns the size in bytes, including unused processes that still remain.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Counts a dropped hold. Removes unused processes once the dropped holds reach a quarter of the processes.
    pub(super) fn forget_one(&mut self) {
        self.forgotten += 1;
        if self.forgotten * 4 > self.all.len() {
            self.forgotten = 0;
            self.all.retain(|process| Arc::strong_count(process) > 1);
            self.bytes = self.all.iter().map(|process| bytes(process)).sum();
        }
    }
}

fn bytes(process: &Process) -> usize {
    PROCESS_BYTES + process.application.len() + process.host.len() + process.note.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32) -> Arc<Process> {
        Arc::new(Process { application: "orders".to_owned(), host: "web".to_owned(), pid, note: String::new() })
    }

    #[test]
    fn equal_processes_are_shared_and_unused_ones_are_removed() {
        let mut processes = Processes::default();
        let (one, same) = (processes.share(&process(1)), processes.share(&process(1)));
        assert!(Arc::ptr_eq(&one, &same));
        drop(processes.share(&process(2)));
        assert_eq!(processes.bytes(), 2 * bytes(&one));
        processes.forget_one();
        assert_eq!((processes.all.len(), processes.bytes()), (1, bytes(&one)));
    }
}
