//! The options of the command line.

use crate::place::PlaceName;
use std::time::Duration;

/// The options of a run.
pub(crate) struct Options {
    /// How long things go wrong, in all.
    pub(crate) time: Duration,
    pub(crate) seed: u64,
    pub(crate) places: Vec<PlaceName>,
    pub(crate) part: Part,
    /// How many client processes a place has.
    pub(crate) clients: usize,
}

/// Which workloads run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    All,
    MustPass,
    MustFail,
}

/// A summary, in a few lines.
pub(crate) const USAGE: &str = "\
Runs client processes on real servers while things go wrong, and checks the histories that they write.

  --minutes M         how long things go wrong, in all; rests and checks come on top [1]
  --seed S            the seed of the faults and of the work [random]
  --place NAME        standalone, sentinel, cluster, divided or quorum; may be given more than once [all]
  --workload PART     all, must-pass or must-fail [all]
  --clients N         client processes at each place [4]";

impl Options {
    /// Reads the arguments; the error is a sentence.
    pub(crate) fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            time: Duration::from_secs(60),
            seed: fastrand::u64(..),
            places: Vec::new(),
            part: Part::All,
            clients: 4,
        };
        let mut arguments = arguments.into_iter();
        while let Some(name) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
            let wrong = || format!("{name} cannot be {value:?}");
            match name.as_str() {
                "--minutes" => {
                    let minutes: f64 = value.parse().map_err(|_| wrong())?;
                    options.time = Duration::try_from_secs_f64(minutes * 60.0).map_err(|_| wrong())?;
                }
                "--seed" => options.seed = value.parse().map_err(|_| wrong())?,
                "--clients" => options.clients = value.parse().ok().filter(|n| *n > 1).ok_or_else(wrong)?,
                "--place" => {
                    let place = PlaceName::ALL.into_iter().find(|place| place.word() == value);
                    options.places.push(place.ok_or_else(wrong)?);
                }
                "--workload" => {
                    options.part = match value.as_str() {
                        "all" => Part::All,
                        "must-pass" => Part::MustPass,
                        "must-fail" => Part::MustFail,
                        _ => return Err(wrong()),
                    };
                }
                _ => return Err(format!("there is no option {name}")),
            }
        }
        if options.places.is_empty() {
            options.places = PlaceName::ALL.to_vec();
        }
        Ok(options)
    }
}
