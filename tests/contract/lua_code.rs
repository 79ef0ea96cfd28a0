//! Lua, as far as the rules for scripts need it: its words without comments and strings.

/// A word of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    Name(String),
    Number(String),
    Text(String),
    Sign(String),
}

impl Word {
    pub(crate) fn is(&self, sign: &str) -> bool {
        matches!(self, Self::Sign(text) | Self::Name(text) if text == sign)
    }

    pub(crate) fn name(&self) -> Option<&str> {
        if let Self::Name(name) = self { Some(name) } else { None }
    }
}

/// The globals that a script may use without declaring them.
pub(crate) const GLOBALS: [&str; 11] =
    ["KEYS", "ARGV", "redis", "tonumber", "tostring", "type", "string", "math", "ipairs", "pairs", "unpack"];

const KEYWORDS: [&str; 21] = [
    "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "if", "in", "local", "nil", "not", "or",
    "repeat", "return", "then", "true", "until", "while",
];

/// Splits a script into words.
pub(crate) fn words(text: &str) -> Vec<Word> {
    let mut words = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let taken = if first.is_whitespace() {
            first.len_utf8()
        } else if rest.starts_with("--") {
            rest.find('\n').unwrap_or(rest.len())
        } else if first == '\'' || first == '"' {
            let end = rest[1..].find(first).expect("a text ends") + 1;
            assert!(
                !rest[..end].contains('\\'),
                "no script needs an escape, and this reader knows none: {}",
                &rest[..end]
            );
            words.push(Word::Text(rest[1..end].to_owned()));
            end + 1
        } else if first.is_ascii_alphabetic() || first == '_' {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            words.push(Word::Name(rest[..end].to_owned()));
            end
        } else if first.is_ascii_digit() {
            let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            words.push(Word::Number(rest[..end].to_owned()));
            end
        } else {
            let long = ["..", "==", "~=", "<=", ">="].into_iter().find(|sign| rest.starts_with(sign));
            let end = long.map_or_else(|| first.len_utf8(), str::len);
            words.push(Word::Sign(rest[..end].to_owned()));
            end
        };
        rest = &rest[taken..];
    }
    words
}

/// Names that are used in a script and declared neither in it, nor by what stands in front of it.
pub(crate) fn undeclared(text: &str, known: &[String]) -> Vec<String> {
    let words = words(text);
    let mut declared: Vec<String> = known.to_vec();
    let mut missing = Vec::new();
    let mut open = Vec::new();
    for (at, word) in words.iter().enumerate() {
        if let Some(bracket) = ["(", "[", "{"].into_iter().find(|bracket| word.is(bracket)) {
            open.push(bracket);
        } else if [")", "]", "}"].iter().any(|bracket| word.is(bracket)) {
            open.pop();
        }
        let Some(name) = word.name() else { continue };
        if open.last() == Some(&"{") && words.get(at + 1).is_some_and(|next| next.is("=")) {
            // The name of a field in the making of a table.
            continue;
        }
        let before = at.checked_sub(1).map(|before| &words[before]);
        let is_field = before.is_some_and(|word| word.is(".") || word.is(":"));
        if is_field || KEYWORDS.contains(&name) {
            continue;
        }
        if is_declared_here(&words, at) {
            declared.push(name.to_owned());
        } else if !GLOBALS.contains(&name) && !declared.iter().any(|known| known == name) {
            missing.push(name.to_owned());
        }
    }
    missing
}

/// Whether the name stands where it is declared: after `local` or `for`, or among the parameters of a function.
fn is_declared_here(words: &[Word], at: usize) -> bool {
    let mut back = at;
    while back > 0 {
        back -= 1;
        let word = &words[back];
        if word.is("local") || word.is("for") {
            return true;
        }
        if word.is("function") {
            // `local function name` declares the name, and its parentheses the parameters.
            return true;
        }
        if word.is("(") {
            let opens_parameters = back >= 2 && words[back - 2].is("function");
            return opens_parameters;
        }
        if !(word.is(",") || word.name().is_some_and(|name| !KEYWORDS.contains(&name))) {
            return false;
        }
        // Two names in a row with nothing between them belong to two statements.
        if word.name().is_some() && words[back + 1].name().is_some() {
            return false;
        }
    }
    false
}

/// The calls of `function`, each as the words of its arguments.
pub(crate) fn calls(words: &[Word], function: &[&str]) -> Vec<Vec<Vec<Word>>> {
    let mut calls = Vec::new();
    for at in 0..words.len() {
        let named = function.iter().enumerate().all(|(i, part)| words.get(at + i).is_some_and(|word| word.is(part)));
        let defined = at.checked_sub(1).is_some_and(|before| words[before].is("function"));
        if named && !defined && words.get(at + function.len()).is_some_and(|word| word.is("(")) {
            calls.push(arguments(&words[at + function.len() + 1..]));
        }
    }
    calls
}

fn arguments(words: &[Word]) -> Vec<Vec<Word>> {
    let mut arguments = vec![Vec::new()];
    let mut depth = 0;
    for word in words {
        if depth == 0 && word.is(")") {
            return arguments;
        }
        if depth == 0 && word.is(",") {
            arguments.push(Vec::new());
            continue;
        }
        depth += i32::from(["(", "[", "{"].iter().any(|sign| word.is(sign)));
        depth -= i32::from([")", "]", "}"].iter().any(|sign| word.is(sign)));
        arguments.last_mut().expect("there is a first one").push(word.clone());
    }
    panic!("a call without an end");
}

#[test]
fn undeclared_names_are_found() {
    assert_eq!(
        undeclared("local a, b = KEYS[1], 2\nlocal function f(c, d) return c + d end\nreturn f(a, b)", &[]),
        [""; 0]
    );
    assert_eq!(undeclared("for i = 1, #KEYS do local x = i end", &[]), [""; 0]);
    assert_eq!(undeclared("count = 1", &[]), ["count"]);
    assert_eq!(undeclared("local t = {count = 1, lease = KEYS[1]}", &[]), [""; 0]);
    assert_eq!(undeclared("local t = {count = lease}", &[]), ["lease"]);
    assert_eq!(undeclared("local x = os.time() return x", &[]), ["os"]);
    assert_eq!(undeclared("return extend(1)", &[]), ["extend"]);
    assert_eq!(undeclared("return extend(1)", &["extend".to_owned()]), [""; 0]);
    assert_eq!(undeclared("local t = redis.call('TIME')\nreturn t.ok", &[]), [""; 0]);
}
