//! One call of a script, ready to be sent.

use crate::script::Script;
use bytes::Bytes;

/// A script with its keys and arguments. Everything in it is owned, so that it can be sent again as it is.
#[derive(Clone, Debug)]
pub struct Call {
    script: &'static Script,
    keys: Vec<Bytes>,
    args: Vec<Bytes>,
}

impl Call {
    /// A call of `script`. All keys must lie in one hash slot.
    pub const fn new(script: &'static Script, keys: Vec<Bytes>, args: Vec<Bytes>) -> Self {
        Self { script, keys, args }
    }

    /// What is called.
    pub const fn script(&self) -> &'static Script {
        self.script
    }

    /// `KEYS`; never empty, and the first one decides the hash slot.
    pub fn keys(&self) -> &[Bytes] {
        &self.keys
    }

    /// `ARGV`.
    pub fn args(&self) -> &[Bytes] {
        &self.args
    }
}
