//! Parses the header of a Lua file: the contract of the script.

use std::collections::BTreeSet;

/// The header of a script.
#[derive(Debug)]
pub(crate) struct Header {
    pub(crate) purpose: String,
    pub(crate) keys: Vec<Slot>,
    pub(crate) args: Vec<Slot>,
    /// The keys that the script uses although `KEYS` does not contain them, and the reason.
    pub(crate) also: String,
    /// `array` or `integer`.
    pub(crate) shape: String,
    /// The lines of `returns`, each reply with its meaning.
    pub(crate) returns: Vec<Row>,
    pub(crate) example: Example,
}

/// `ARGV[2]  count  [integer]  the hold count …`.
#[derive(Debug)]
pub(crate) struct Slot {
    /// The text in the brackets: `2`, or `2i-1` where slots are repeated.
    pub(crate) index: String,
    pub(crate) word: String,
    pub(crate) sort: String,
    pub(crate) meaning: String,
}

/// `{0, left, time}  busy: …`, or `-1  other: …`.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) reply: String,
    pub(crate) meaning: String,
}

#[derive(Debug)]
pub(crate) struct Example {
    pub(crate) keys: Vec<String>,
    pub(crate) args: Vec<String>,
    pub(crate) returns: String,
}

impl Header {
    /// Reads the comment at the top of `text`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let lines: Vec<&str> = text
            .lines()
            .take_while(|line| line.starts_with("--"))
            .map(|line| line[2..].strip_prefix(' ').unwrap_or(""))
            .collect();
        let gap = lines.iter().position(|line| line.is_empty()).ok_or("no empty line after the purpose")?;
        let mut header = Self {
            purpose: lines[..gap].join(" "),
            keys: Vec::new(),
            args: Vec::new(),
            also: String::new(),
            shape: String::new(),
            returns: Vec::new(),
            example: Example { keys: Vec::new(), args: Vec::new(), returns: String::new() },
        };
        let mut part = "";
        for line in &lines[gap + 1..] {
            let (first, rest) = line.trim().split_once(' ').unwrap_or_else(|| (line.trim(), ""));
            let rest = rest.trim();
            if !line.starts_with(' ') {
                part = first.split('[').next().unwrap_or_default();
                match part {
                    "KEYS" => header.keys.push(Slot::parse(first, rest)?),
                    "ARGV" => header.args.push(Slot::parse(first, rest)?),
                    "returns" => {
                        let (shape, row) = rest.split_once(' ').ok_or("`returns` has no reply")?;
                        header.shape = bracketed(shape)?.to_owned();
                        header.returns.push(Row::parse(row.trim()));
                    }
                    "also" => rest.clone_into(&mut header.also),
                    "where" => {}
                    "example" => header.example = Example::parse(rest)?,
                    _ => return Err(format!("{first:?} is no part of a header")),
                }
                continue;
            }
            // A line that is indented goes on with the part above it.
            match part {
                "KEYS" => go_on(&mut header.keys.last_mut().ok_or("no slot")?.meaning, line),
                "ARGV" => go_on(&mut header.args.last_mut().ok_or("no slot")?.meaning, line),
                "returns" if is_reply(line.trim()) => header.returns.push(Row::parse(line.trim())),
                "returns" => go_on(&mut header.returns.last_mut().ok_or("no reply")?.meaning, line),
                _ => {}
            }
        }
        if header.keys.is_empty() || header.returns.is_empty() || header.example.returns.is_empty() {
            return Err("a header has KEYS, returns and an example".to_owned());
        }
        Ok(header)
    }

    /// The codes by which the replies begin.
    pub(crate) fn codes(&self) -> BTreeSet<i64> {
        self.returns.iter().filter_map(|row| row.words().first()?.parse().ok()).collect()
    }
}

impl Slot {
    fn parse(name: &str, rest: &str) -> Result<Self, String> {
        let index = bracketed(&name[4..])?.to_owned();
        let mut words = rest.split_whitespace();
        let word = words.next().ok_or_else(|| format!("{name} has no word"))?.to_owned();
        let sort = bracketed(words.next().ok_or_else(|| format!("{name} has no type"))?)?.to_owned();
        let meaning = words.collect::<Vec<_>>().join(" ");
        if meaning.is_empty() { Err(format!("{name} has no meaning")) } else { Ok(Self { index, word, sort, meaning }) }
    }
}

impl Row {
    fn parse(line: &str) -> Self {
        let end = match line.find('}').filter(|_| line.starts_with('{')) {
            Some(brace) => brace + 1,
            None if is_reply(line) => line.find(' ').unwrap_or(line.len()),
            None => 0,
        };
        Self { reply: line[..end].to_owned(), meaning: line[end..].trim().to_owned() }
    }

    /// The words of the reply, in order.
    pub(crate) fn words(&self) -> Vec<&str> {
        self.reply.trim_matches(['{', '}']).split(',').map(str::trim).collect()
    }
}

impl Example {
    fn parse(text: &str) -> Result<Self, String> {
        let (call, returns) = text.split_once(" returns ").ok_or("the example returns nothing")?;
        let (keys, args) = call.split_once(" ARGV ").unwrap_or((call, ""));
        let keys = keys.strip_prefix("KEYS ").ok_or("the example has no KEYS")?;
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect();
        Ok(Self { keys: words(keys), args: words(args), returns: returns.trim().to_owned() })
    }
}

/// Adds a line to the text that it goes on with.
fn go_on(text: &mut String, line: &str) {
    text.push(' ');
    text.push_str(line.trim());
}

/// Whether a line of `returns` begins with a reply, and not with the words of the reply above it.
fn is_reply(line: &str) -> bool {
    line.starts_with('{') || line.split_once("  ").is_some_and(|(code, _)| code.trim().parse::<i64>().is_ok())
}

fn bracketed(text: &str) -> Result<&str, String> {
    text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).ok_or_else(|| format!("{text:?} is not in brackets"))
}

#[test]
fn a_header_without_a_contract_is_refused() {
    assert!(Header::parse("-- Purpose.\nreturn 1").is_err());
    assert!(Header::parse("-- Purpose.\n--\n-- KEYS[1]  lock  [hash]  it\n\nreturn 1").is_err());
    assert!(Header::parse("-- Purpose.\n--\n-- KEYS[1]  lock  hash  it\n").is_err(), "a type stands in brackets");
    let whole = "-- Purpose.\n--\n-- KEYS[1]  lock  [hash]  it\n--   is\n-- returns  [integer]  1  yes\n--    -1  no\n\
                 -- where    yes is\n--    good\n-- example  KEYS a  returns 1\n";
    let header = Header::parse(whole).expect("this one is whole");
    assert_eq!(header.codes(), [-1, 1].into());
    assert_eq!(header.keys[0].meaning, "it is");
    assert_eq!(header.example.keys, ["a"]);
}
