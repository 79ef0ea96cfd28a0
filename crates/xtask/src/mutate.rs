//! `cargo xtask mutate`: breaks the code on purpose, one place at a time, and wants that to be noticed.

mod mutant;
mod run;
mod tree;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use self::mutant::{Detector, Mutant};
use self::run::{Run, Verdict};
use self::tree::Tree;
use crate::{Outcome, root};

/// Which mutants are tried, and how.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only mutants whose promise, name or file has this in it; it can be given several times
    #[arg(long)]
    only: Vec<String>,
    /// Only so many of these, drawn by chance
    #[arg(long)]
    sample: Option<usize>,
    /// Draw the same ones as the run that printed this seed
    #[arg(long, requires = "sample")]
    seed: Option<u64>,
    /// Show the mutants, and try none
    #[arg(long)]
    list: bool,
    /// Do not ask first whether everything is green without a mutant
    #[arg(long)]
    skip_unbroken: bool,
    /// The folder to work in: two runs at once need two folders
    #[arg(long, default_value = "target/mutate")]
    folder: PathBuf,
    /// A program that runs for longer has failed, in seconds
    #[arg(long, default_value_t = 120)]
    limit: u64,
}

/// The result of a mutant.
enum Fate {
    Caught { by: Detector, after: Duration, finding: String },
    Survived,
    Invalid(String),
}

/// Tries the mutants.
pub(crate) fn run(options: &Options) -> Outcome {
    let workspace = root();
    let mut mutants = read(&workspace.join("tests/mutants"))?;
    let wanted = |mutant: &Mutant| {
        let place = format!("{}/{} {}", mutant.promise, mutant.name, mutant.file);
        options.only.is_empty() || options.only.iter().any(|part| place.contains(part.as_str()))
    };
    mutants.retain(wanted);
    if mutants.is_empty() {
        return Err("there is no such mutant".to_owned());
    }
    if let Some(most) = options.sample {
        let seed = options.seed.unwrap_or_else(|| fastrand::u64(..));
        draw(&mut mutants, most, seed);
        println!("a sample of {}: --sample {most} --seed {seed} draws it again", mutants.len());
    }
    if options.list {
        list(&mutants);
        return Ok(());
    }
    let folder = workspace.join(&options.folder);
    let tree = Tree::of(workspace, &folder)?;
    let detection = Run { tree: &tree.root, folder: &folder, limit: Duration::from_secs(options.limit) };
    if !options.skip_unbroken {
        unbroken(&detection, &mutants)?;
    }
    let mut fates = Vec::new();
    for mutant in &mutants {
        let fate = fate_of(&tree, &detection, mutant)?;
        println!("{}", row(mutant, &fate));
        fates.push(fate);
    }
    let count = |is: fn(&Fate) -> bool| fates.iter().filter(|fate| is(fate)).count();
    let caught = count(|fate| matches!(fate, Fate::Caught { .. }));
    let survived = count(|fate| matches!(fate, Fate::Survived));
    let invalid = count(|fate| matches!(fate, Fate::Invalid(_)));
    println!("{caught} caught, {survived} survived");
    match (survived, invalid) {
        (0, 0) => Ok(()),
        (_, 0) => Err("what survives shows that a check is missing".to_owned()),
        _ => Err(format!("{invalid} mutants are stale, or cannot be built")),
    }
}

/// All mutants, by promise and name.
fn read(folder: &Path) -> Result<Vec<Mutant>, String> {
    let mut found = BTreeMap::new();
    let list = |folder: &Path| {
        let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok::<_, String>(entries.flatten().map(|entry| entry.path()).collect::<Vec<_>>())
    };
    let name_of = |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    for promise in list(folder)?.into_iter().filter(|path| path.is_dir()) {
        for path in list(&promise)? {
            let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            let mutant = Mutant::parse(&name_of(&promise), &name_of(&path), &text)
                .map_err(|why| format!("{} is no mutant: {why}", path.display()))?;
            found.insert((mutant.promise.clone(), mutant.name.clone()), mutant);
        }
    }
    Ok(found.into_values().collect())
}

/// Leaves so many mutants, drawn by chance, in the order in which they were.
fn draw(mutants: &mut Vec<Mutant>, most: usize, seed: u64) {
    let mut drawn: Vec<usize> = (0..mutants.len()).collect();
    fastrand::Rng::with_seed(seed).shuffle(&mut drawn);
    drawn.truncate(most);
    let mut at = 0..mutants.len();
    mutants.retain(|_| at.next().is_some_and(|at| drawn.contains(&at)));
}

fn list(mutants: &[Mutant]) {
    for mutant in mutants {
        println!("{:<16} {:<40} {}", mutant.promise, mutant.name, mutant.breaks);
    }
    println!("{} mutants", mutants.len());
}

/// Wants every detector to be green while nothing is broken: otherwise its red means nothing.
fn unbroken(detection: &Run<'_>, mutants: &[Mutant]) -> Outcome {
    let mut detectors: Vec<_> = mutants.iter().flat_map(|mutant| &mutant.detectors).collect();
    detectors.sort();
    detectors.dedup();
    println!("without a mutant: {} detectors", detectors.len());
    for detector in detectors {
        match detection.run(detector)? {
            Verdict::Passed => {}
            Verdict::Failed { finding, .. } => {
                return Err(format!("`{detector}` is red without any mutant: {finding}"));
            }
            Verdict::NotBuilt(output) => return Err(format!("`{detector}` cannot be built: {output}")),
        }
    }
    Ok(())
}

/// Asks one detector after the other, until one has found it.
fn fate_of(tree: &Tree, detection: &Run<'_>, mutant: &Mutant) -> Result<Fate, String> {
    let _applied = match tree.with(mutant) {
        Ok(applied) => applied,
        Err(why) => return Ok(Fate::Invalid(why)),
    };
    for detector in &mutant.detectors {
        match detection.run(detector)? {
            Verdict::Passed => {}
            Verdict::Failed { after, finding } => return Ok(Fate::Caught { by: detector.clone(), after, finding }),
            Verdict::NotBuilt(output) => return Ok(Fate::Invalid(output)),
        }
    }
    Ok(Fate::Survived)
}

fn row(mutant: &Mutant, fate: &Fate) -> String {
    let Mutant { promise, name, breaks, .. } = mutant;
    let what = match fate {
        Fate::Caught { by, after, finding } => {
            let finding: String = finding.chars().take(150).collect();
            format!("{:>6.1} s  {by}\n        {finding}", after.as_secs_f64())
        }
        Fate::Survived => format!("SURVIVED  {breaks}"),
        Fate::Invalid(why) => format!("INVALID   {why}"),
    };
    format!("{promise:<16} {name:<40} {what}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(seed: u64, most: usize) -> Vec<String> {
        let text = "breaks: It.\nfile: a\ncaught by: simulate\n--- find\na\n--- replace\nb\n";
        let one = |name: u32| Mutant::parse("hints", &name.to_string(), text).expect("a mutant");
        let mut mutants: Vec<Mutant> = (0..50).map(one).collect();
        draw(&mut mutants, most, seed);
        mutants.into_iter().map(|mutant| mutant.name).collect()
    }

    #[test]
    fn sample_is_drawn_anew_and_again_by_its_seed() {
        assert_eq!(names(1, 12), names(1, 12));
        assert_ne!(names(1, 12), names(2, 12));
        assert_eq!((names(1, 12).len(), names(1, 80).len()), (12, 50));
    }
}
