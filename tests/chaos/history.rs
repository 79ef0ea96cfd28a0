//! The history of a process: one line for each thing that it did or learned, written before anything else happens.
//!
//! A line is an instant, the number of an operation, a word, and what belongs to the word. Lines survive the process that wrote them,
//! because each is one `write`. An operation begins with an acquire and ends with the end of what was acquired.

use crate::lineage::Executed;
use crate::moment::now;
use leasehold_core::command::permits::PermitId;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The kinds of locks that exclude each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// One holder at a time.
    Alone,
    /// The half of a read-write lock that many may hold.
    Read,
    /// The half that one may hold, while the other is free.
    Write,
    /// Some of a number of permits.
    Permits,
    /// Nothing is held: it is open for all.
    Open,
}

impl Rule {
    const ALL: [(Self, &str); 5] = [
        (Self::Alone, "alone"),
        (Self::Read, "read"),
        (Self::Write, "write"),
        (Self::Permits, "permits"),
        (Self::Open, "open"),
    ];

    fn word(self) -> &'static str {
        Self::ALL.iter().find(|(rule, _)| *rule == self).map_or("", |(_, word)| word)
    }

    fn named(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == word).map(|(rule, _)| *rule)
    }
}

/// The text between the names of locks that are held together.
pub(crate) const SEVERAL: &str = "+";

/// The subject of an operation.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    /// The name of the lock, or of several, with [`SEVERAL`] between them.
    pub(crate) lock: String,
    pub(crate) rule: Rule,
    /// How many permits; 1 for what is no semaphore.
    pub(crate) share: u32,
    /// How long the acquire may take in all, by what its caller asked for; `None` where it may take as long as others hold the lock.
    pub(crate) bound: Option<Duration>,
}

/// The file into which a process writes its history.
pub(crate) struct Journal {
    file: Mutex<File>,
    last: AtomicU64,
}

impl Journal {
    pub(crate) fn create(path: &Path) -> Self {
        let file = File::create(path).unwrap_or_else(|error| panic!("{} cannot be made: {error}", path.display()));
        Self { file: Mutex::new(file), last: AtomicU64::new(0) }
    }

    /// An acquire begins. Returns the number of the operation.
    pub(crate) fn invoked(&self, wish: &Wish) -> u64 {
        let op = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let bound = wish.bound.map_or_else(|| "-".to_owned(), |bound| bound.as_millis().to_string());
        self.write(now(), op, &format!("invoked {} {} {} {bound}", wish.rule.word(), wish.lock, wish.share));
        op
    }

    /// The acquire has given a guard, which knows a deadline. The fencing token is 0 where there is none, and the [`label`] of the hold is
    /// `-` where the guard does not tell it.
    pub(crate) fn granted(&self, op: u64, until: u64, token: u64, hold: &str) {
        self.write(now(), op, &format!("granted {until} {token} {hold}"));
    }

    /// A server process has granted a lock to a hold, and the client is about to hear of it.
    pub(crate) fn executed(&self, asked: u64, server: &str, hold: &str, lock: &str) {
        self.write(now(), 0, &format!("executed {asked} {server} {hold} {lock}"));
    }

    /// The acquire has ended without a guard.
    pub(crate) fn refused(&self, op: u64, why: &str) {
        self.write(now(), op, &format!("refused {why}"));
    }

    /// The guard knows a later deadline.
    pub(crate) fn seen(&self, op: u64, until: u64) {
        self.write(now(), op, &format!("seen {until}"));
    }

    /// The guard was said to be lost.
    pub(crate) fn lost(&self, op: u64, reason: &str) {
        self.write(now(), op, &format!("lost {reason}"));
    }

    /// The guard is about to be released or dropped, and was certain of so much time then.
    pub(crate) fn ending(&self, op: u64, remaining: Duration) {
        self.write(now(), op, &format!("ending {}", remaining.as_nanos()));
    }

    /// The result of that.
    pub(crate) fn ended(&self, op: u64, how: &str) {
        self.write(now(), op, &format!("ended {how}"));
    }

    /// The guard is released, and its lock stays busy until an instant that is still to come: it is believed in until then.
    pub(crate) fn kept(&self, op: u64, until: u64) {
        self.seen(op, until);
        self.write(until, op, "ending 0");
        self.write(until, op, "ended kept");
    }

    /// The store has confirmed a change under this operation.
    pub(crate) fn stored(&self, op: u64) {
        self.write(now(), op, "stored");
    }

    /// The process did not run between two instants.
    pub(crate) fn stalled(&self, from: u64, to: u64) {
        self.write(to, 0, &format!("stalled {from}"));
    }

    /// A hold of a single lock was given back, as far as its client had it.
    pub(crate) fn gone(&self, hold: &str) {
        self.write(now(), 0, &format!("gone {hold}"));
    }

    /// So many calls went to a server as one.
    pub(crate) fn batched(&self, calls: usize) {
        self.write(now(), 0, &format!("batched {calls}"));
    }

    /// The background of the process did not run from an instant on, and does again.
    pub(crate) fn stuck(&self, from: u64) {
        self.write(now(), 0, &format!("stuck {from}"));
    }

    fn write(&self, at: u64, op: u64, what: &str) {
        let line = format!("{at} {op} {what}\n");
        let mut file = self.file.lock().expect("no writer panics");
        file.write_all(line.as_bytes()).expect("a history that can be written");
    }
}

/// A hold in one word, from its name: the beginning of the ids that its permits would have, for that is all that the server is told of a hold
/// of permits.
pub(crate) fn label(hold: &str) -> String {
    // The server knows a writer by its name and a word.
    let field = hold.strip_suffix(":write").unwrap_or(hold);
    let id = PermitId::of_hold(field, 1).next();
    id.map(|id| label_of_permits(id.as_bytes())).unwrap_or_default()
}

/// The same, from the ids of its permits.
pub(crate) fn label_of_permits(ids: &[u8]) -> String {
    ids.iter().take(12).map(|byte| format!("{byte:02x}")).collect()
}

/// An operation, as far as its history tells.
#[derive(Clone, Debug)]
pub(crate) struct Op {
    /// The process, and the number of the operation in it.
    pub(crate) who: String,
    pub(crate) wish: Wish,
    pub(crate) invoked: u64,
    pub(crate) granted: Option<Granted>,
    /// The [`label`] of its hold, if its guard has told it.
    pub(crate) hold: Option<String>,
    /// For each lock the grants that may be its own, with one server mostly one.
    pub(crate) executed: BTreeMap<String, Vec<Executed>>,
    pub(crate) refused: Option<(u64, String)>,
    pub(crate) lost: Option<(u64, String)>,
    /// When its end began, and how long the guard was certain of the lock then.
    pub(crate) ending: Option<(u64, u64)>,
    pub(crate) ended: Option<(u64, String)>,
    /// How often the store has confirmed a change.
    pub(crate) stored: u32,
    /// The last instant before its process was killed.
    pub(crate) died: Option<u64>,
}

/// A grant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Granted {
    pub(crate) at: u64,
    /// The latest deadline that the guard is known to have had.
    pub(crate) until: u64,
    pub(crate) token: u64,
}

impl Op {
    /// When its holder believed that it held the lock: from the grant to the first of its end, its loss, its local deadline, and the
    /// death of its process.
    pub(crate) fn belief(&self) -> Option<(u64, u64)> {
        let granted = self.granted?;
        let end = match (self.ending, self.lost.as_ref()) {
            // It was certain of the lock at that moment, however old the last look at the deadline is.
            (Some((at, remaining)), None) if remaining > 0 => at,
            (ending, lost) => {
                let known = [ending.map(|(at, _)| at), lost.map(|(at, _)| *at), self.died];
                known.into_iter().flatten().fold(granted.until, u64::min)
            }
        };
        Some((granted.at, end.max(granted.at)))
    }

    /// Whether another task of the process has handed the hold on: the server had granted it before it was asked for.
    pub(crate) fn was_handed_on(&self) -> bool {
        self.executed.values().any(|grants| !grants.is_empty() && grants.iter().all(|grant| grant.asked < self.invoked))
    }

    /// The acquire's end; `None` where it has none.
    pub(crate) fn answered(&self) -> Option<u64> {
        self.granted.map(|granted| granted.at).or_else(|| self.refused.as_ref().map(|(at, _)| *at))
    }
}

/// The facts that a history tells.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    /// The operations, in the order in which they were begun.
    pub(crate) ops: Vec<Op>,
    /// When the process did not run.
    pub(crate) stalls: Vec<(u64, u64)>,
    /// When its background did not.
    pub(crate) stuck: Vec<(u64, u64)>,
    /// How many calls went to a server as one, each time.
    pub(crate) batches: Vec<u64>,
}

/// A grant to a hold in this process.
struct Grant {
    lock: String,
    hold: String,
    executed: Executed,
}

/// Reads the history of a process. A last line that was cut off by the end of its process is left out.
pub(crate) fn read(process: &str, text: &str, died: Option<u64>) -> Result<History, String> {
    let mut ops: BTreeMap<u64, Op> = BTreeMap::new();
    let (mut stalls, mut stuck, mut batches, mut grants) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut gone = BTreeMap::new();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    for line in whole.lines() {
        let known = if let Some((at, what)) = of_the_process(line) {
            match what.split_once(' ') {
                Some(("stalled", from)) => span(from, at).map(|span| stalls.push(span)),
                Some(("stuck", from)) => span(from, at).map(|span| stuck.push(span)),
                Some(("batched", calls)) => calls.parse().ok().map(|calls| batches.push(calls)),
                Some(("executed", what)) => grant(at, what).map(|grant| grants.push(grant)),
                Some(("gone", hold)) => at.parse::<u64>().ok().map(|at| {
                    gone.entry(hold).or_insert(at);
                }),
                _ => None,
            }
        } else {
            apply(process, line, died, &mut ops)
        };
        known.ok_or_else(|| format!("the history of {process} has a line {line:?}"))?;
    }
    let mut ops: Vec<_> = ops.into_values().collect();
    assign(&mut ops, &grants, &gone);
    Ok(History { ops, stalls, stuck, batches })
}

/// The instant and the words of a line that belongs to no operation.
fn of_the_process(line: &str) -> Option<(&str, &str)> {
    let (at, rest) = line.split_once(' ')?;
    Some((at, rest.strip_prefix("0 ")?))
}

fn span(from: &str, to: &str) -> Option<(u64, u64)> {
    Some((from.parse().ok()?, to.parse().ok()?))
}

fn grant(at: &str, what: &str) -> Option<Grant> {
    let mut words = what.splitn(4, ' ');
    let asked = words.next()?.parse().ok()?;
    let server = words.next()?.to_owned();
    let (hold, lock) = (words.next()?.to_owned(), words.next()?.to_owned());
    Some(Grant { lock, hold, executed: Executed { server, asked, at: at.parse().ok()? } })
}

/// Finds the grants of each operation: those of its hold, or, where its guard does not tell the hold, those of its lock while it was asked
/// for, but for those that another operation claims, and those that were given back by then. Where there is none of these, another task of the
/// process has handed the hold on, and its grant is the last one.
fn assign(ops: &mut [Op], grants: &[Grant], gone: &BTreeMap<&str, u64>) {
    let claimed: BTreeSet<_> = ops.iter().filter_map(|op| op.hold.clone()).collect();
    for op in ops {
        let Some(granted) = op.granted else { continue };
        for lock in op.wish.lock.split(SEVERAL) {
            let by_then = grants.iter().filter(|grant| grant.lock == lock && grant.executed.at <= granted.at);
            let found: Vec<_> = match &op.hold {
                Some(hold) => by_then.filter(|grant| grant.hold == *hold).collect(),
                None => {
                    let is_kept = |grant: &&Grant| gone.get(&*grant.hold).is_none_or(|gone| *gone > granted.at);
                    let kept: Vec<_> = by_then.filter(is_kept).collect();
                    let is_own = |grant: &&Grant| op.invoked <= grant.executed.asked && !claimed.contains(&grant.hold);
                    let own: Vec<_> = kept.iter().copied().filter(is_own).collect();
                    if own.is_empty() { kept.last().copied().into_iter().collect() } else { own }
                }
            };
            op.executed.insert(lock.to_owned(), found.into_iter().map(|grant| grant.executed.clone()).collect());
        }
    }
}

fn apply(process: &str, line: &str, died: Option<u64>, ops: &mut BTreeMap<u64, Op>) -> Option<()> {
    let mut words = line.split(' ');
    let at: u64 = words.next()?.parse().ok()?;
    let number: u64 = words.next()?.parse().ok()?;
    let what = words.next()?;
    if what == "invoked" {
        let rule = Rule::named(words.next()?)?;
        let lock = words.next()?.to_owned();
        let share = words.next()?.parse().ok()?;
        let bound = match words.next()? {
            "-" => None,
            millis => Some(Duration::from_millis(millis.parse().ok()?)),
        };
        let wish = Wish { lock, rule, share, bound };
        let who = format!("{process}#{number}");
        let (granted, refused, lost, ending, ended) = (None, None, None, None, None);
        let (hold, executed) = (None, BTreeMap::new());
        let op = Op { who, wish, invoked: at, granted, hold, executed, refused, lost, ending, ended, stored: 0, died };
        return ops.insert(number, op).is_none().then_some(());
    }
    let op = ops.get_mut(&number)?;
    match what {
        "granted" => {
            let (until, token) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
            op.granted = Some(Granted { at, until, token });
            op.hold = words.next().filter(|hold| *hold != "-").map(str::to_owned);
        }
        "refused" => op.refused = Some((at, words.next()?.to_owned())),
        "seen" => {
            let granted = op.granted.as_mut()?;
            granted.until = granted.until.max(words.next()?.parse().ok()?);
        }
        // The first news counts.
        "lost" if op.lost.is_some() => {}
        "lost" => op.lost = Some((at, words.next()?.to_owned())),
        "ending" => op.ending = Some((at, words.next()?.parse().ok()?)),
        "ended" => op.ended = Some((at, words.next()?.to_owned())),
        "stored" => op.stored += 1,
        _ => return None,
    }
    Some(())
}
