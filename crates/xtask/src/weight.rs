//! `cargo xtask weight`: what the crate and each of its features cost a user who builds it for the first time, beside another lock crate.

mod package;

use std::{
    collections::BTreeSet,
    env, fs,
    time::{Duration, Instant},
};

use clap::Args;
use comfy_table::{Table, presets::ASCII_MARKDOWN};

use crate::{Outcome, features::Features};
use package::Package;

#[derive(Args)]
pub(crate) struct Options {
    /// How many times each package is built
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

/// What one build took.
struct Build {
    elapsed: Duration,
    processor: Duration,
}

/// The packages, the first of which is the base, with the builds of all rounds.
struct Measured {
    package: Package,
    crates: BTreeSet<String>,
    builds: Vec<Build>,
}

/// Builds the packages in turn, round after round, and prints the table.
pub(crate) fn run(options: &Options) -> Outcome {
    let folder = env::temp_dir().join(format!("leasehold-weight-{}", std::process::id()));
    let measured = measure(&folder, options.rounds.max(1));
    // A folder that cannot be removed lies among the temporary files, and does no harm there.
    let _ = fs::remove_dir_all(&folder);
    println!("{}", table(&measured?));
    Ok(())
}

fn measure(folder: &std::path::Path, rounds: usize) -> Result<Vec<Measured>, String> {
    let mut packages = vec![Package::rslock(folder)];
    packages.extend(Features::sets()?.iter().map(|set| Package::leasehold(folder, set)));
    let mut measured: Vec<Measured> = Vec::new();
    for package in packages {
        package.write()?;
        let crates = package.crates()?;
        match measured.iter().find(|other| other.crates == crates) {
            Some(other) => println!("{} has the crates of {}.", package.title(), other.package.title()),
            None => measured.push(Measured { package, crates, builds: Vec::new() }),
        }
    }
    for round in 1..=rounds {
        for one in &mut measured {
            let build = cold_build(&one.package)?;
            let (elapsed, processor) = (build.elapsed.as_secs_f64(), build.processor.as_secs_f64());
            eprintln!("round {round}: {} in {elapsed:.1} s, {processor:.1} s of processors", one.package.title());
            one.builds.push(build);
        }
    }
    Ok(measured)
}

fn cold_build(package: &Package) -> Result<Build, String> {
    package.forget_builds()?;
    let (began, processor) = (Instant::now(), processor_of_children());
    package.build()?;
    Ok(Build { elapsed: began.elapsed(), processor: processor_of_children().saturating_sub(processor) })
}

/// The processors' time that the programs started from here have taken, as Linux tells it; none elsewhere.
fn processor_of_children() -> Duration {
    let told = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    ticks_of_children(&told).map_or(Duration::ZERO, |ticks| Duration::from_millis(ticks * 10))
}

/// The fields `cutime` and `cstime`, in hundredths of a second, which come 13 fields after the name of the program in brackets.
fn ticks_of_children(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(13);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

fn table(measured: &[Measured]) -> Table {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    table.set_header(["package", "crates", "seconds", "to the first", "of processors", "to the first"]);
    let Some(base) = measured.first() else { return table };
    for one in measured {
        let figures = |of: fn(&Build) -> Duration| {
            let seconds = one.builds.iter().map(|build| of(build).as_secs_f64());
            let ratios = seconds.clone().zip(&base.builds).map(|(mine, base)| mine / of(base).as_secs_f64());
            [spread(seconds.collect(), 1), spread(ratios.collect(), 2)]
        };
        let elapsed = figures(|build| build.elapsed);
        let processor = figures(|build| build.processor);
        let cells = [one.package.title().to_owned(), one.crates.len().to_string()];
        table.add_row(cells.into_iter().chain(elapsed).chain(processor));
    }
    table
}

/// The median, with the least and the greatest in brackets.
fn spread(mut figures: Vec<f64>, digits: usize) -> String {
    figures.sort_by(f64::total_cmp);
    let (Some(least), Some(greatest)) = (figures.first(), figures.last()) else { return String::new() };
    let middle = figures.len() / 2;
    let median =
        if figures.len() % 2 == 1 { figures[middle] } else { f64::midpoint(figures[middle - 1], figures[middle]) };
    if least == greatest {
        return format!("{median:.digits$}");
    }
    format!("{median:.digits$} ({least:.digits$} to {greatest:.digits$})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_children_is_read_behind_the_name() {
        let stat = "7 (a ) b) S 1 2 3 4 5 6 7 8 9 10 11 12 250 50 20 0";
        assert_eq!(ticks_of_children(stat), Some(300));
        assert_eq!(ticks_of_children("7 (a) S 1"), None);
    }

    #[test]
    fn spread_is_median_least_and_greatest() {
        assert_eq!(spread(vec![3.0, 1.0, 2.0], 1), "2.0 (1.0 to 3.0)");
        assert_eq!(spread(vec![1.0, 2.0], 2), "1.50 (1.00 to 2.00)");
        assert_eq!(spread(vec![1.0], 1), "1.0");
    }

    #[test]
    fn table_compares_each_round_with_its_own_base() {
        let folder = std::path::Path::new("/nowhere");
        let build =
            |seconds| Build { elapsed: Duration::from_secs(seconds), processor: Duration::from_secs(2 * seconds) };
        let crates = |count: usize| (0..count).map(|number| number.to_string()).collect();
        let measured = [
            Measured { package: Package::rslock(folder), crates: crates(82), builds: vec![build(10), build(20)] },
            Measured {
                package: Package::leasehold(folder, &Features::default()),
                crates: crates(100),
                builds: vec![build(15), build(30)],
            },
        ];
        let text = table(&measured).to_string();
        let row = text.lines().find(|line| line.contains("leasehold")).expect("a row");
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        assert_eq!(cells, ["", "leasehold", "100", "22.5 (15.0 to 30.0)", "1.50", "45.0 (30.0 to 60.0)", "1.50", ""]);
    }
}
