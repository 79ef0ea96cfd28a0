//! Mutants as text: what each breaks, where, and who should notice.
//!
//! `tests/contract/mutants.rs` includes this file, so that what it checks is what the tool reads.

/// One deliberate breakage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mutant {
    /// The promise that it breaks: the folder that it lies in.
    pub(crate) promise: String,
    /// The name of its file.
    pub(crate) name: String,
    /// The rule that it breaks, in one sentence.
    pub(crate) breaks: String,
    /// The file that it changes, from the root of the workspace.
    pub(crate) file: String,
    /// The text that is replaced. It must be there once.
    pub(crate) find: String,
    /// The text that stands there instead.
    pub(crate) replace: String,
    /// The checks that should notice, in the order in which they are asked.
    pub(crate) detectors: Vec<Detector>,
}

/// Something that is run, and that fails where it finds the breakage.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Detector {
    /// Random worlds, with the arguments of `cargo xtask simulate`.
    Simulation(Vec<String>),
    /// Tests: what `cargo test` gets, and what the test program gets.
    Test(Vec<String>, Vec<String>),
    /// Models that loom runs: what `cargo test` gets, and what the test program gets.
    Interleaving(Vec<String>, Vec<String>),
}

impl Mutant {
    /// Reads the text of the file `tests/mutants/<promise>/<name>`.
    pub(crate) fn parse(promise: &str, name: &str, text: &str) -> Result<Self, String> {
        let (head, blocks) = text.split_once("--- find\n").ok_or("it has no line `--- find`")?;
        let (find, replace) = blocks.split_once("--- replace\n").ok_or("it has no line `--- replace`")?;
        let mut mutant = Self {
            promise: promise.to_owned(),
            name: name.to_owned(),
            breaks: String::new(),
            file: String::new(),
            find: find.to_owned(),
            replace: replace.to_owned(),
            detectors: Vec::new(),
        };
        for line in head.lines().filter(|line| !line.is_empty()) {
            match line.split_once(": ").ok_or_else(|| format!("`{line}` is no `word: value`"))? {
                ("breaks", what) => what.clone_into(&mut mutant.breaks),
                ("file", path) => path.clone_into(&mut mutant.file),
                ("caught by", detector) => mutant.detectors.push(Detector::parse(detector)?),
                (word, _) => return Err(format!("`{word}` is not a word of a mutant")),
            }
        }
        let lacks = [(mutant.breaks.is_empty(), "breaks"), (mutant.file.is_empty(), "file")];
        if let Some((_, word)) = lacks.iter().find(|(lacks, _)| *lacks) {
            return Err(format!("it has no line `{word}`"));
        }
        if mutant.detectors.is_empty() {
            return Err("nobody is said to catch it".to_owned());
        }
        Ok(mutant)
    }

    /// The text of its file with the breakage in it.
    pub(crate) fn apply(&self, text: &str) -> Result<String, String> {
        match text.matches(&self.find).count() {
            1 => Ok(text.replacen(&self.find, &self.replace, 1)),
            times => Err(format!("what it replaces is {times} times in {}, and not once", self.file)),
        }
    }
}

impl Detector {
    fn parse(line: &str) -> Result<Self, String> {
        let mut output = line.split_whitespace().map(str::to_owned);
        match output.next().as_deref() {
            Some("simulate") => Ok(Self::Simulation(output.collect())),
            Some("test") => {
                let (args, forwarded) = split(output);
                Ok(Self::Test(args, forwarded))
            }
            Some("interleave") => {
                let (args, forwarded) = split(output);
                Ok(Self::Interleaving(args, forwarded))
            }
            _ => Err(format!("`{line}` is none of `simulate …`, `test …` and `interleave …`")),
        }
    }

    const fn word(&self) -> &'static str {
        match self {
            Self::Simulation(_) => "simulate",
            Self::Test(..) => "test",
            Self::Interleaving(..) => "interleave",
        }
    }
}

/// The words before `--`, and those behind it.
fn split(words: impl Iterator<Item = String>) -> (Vec<String>, Vec<String>) {
    let all: Vec<_> = words.collect();
    let split = all.iter().position(|word| word == "--").unwrap_or(all.len());
    (all[..split].to_vec(), all.iter().skip(split + 1).cloned().collect())
}

impl std::fmt::Display for Detector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Simulation(args) => write!(f, "{} {}", self.word(), args.join(" ")),
            Self::Test(args, forwarded) | Self::Interleaving(args, forwarded) => {
                write!(f, "{} {}", self.word(), args.join(" "))?;
                if forwarded.is_empty() { Ok(()) } else { write!(f, " -- {}", forwarded.join(" ")) }
            }
        }
    }
}
