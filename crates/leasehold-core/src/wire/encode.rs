//! Requests, as bytes.

use super::words::Words;

/// Appends a command to `out`: an array of bulk strings.
pub fn command(out: &mut Vec<u8>, name: &str, args: &[impl AsRef<[u8]>]) {
    header(out, b'*', 1 + args.len());
    bulk(out, &[name.as_bytes()]);
    for arg in args {
        bulk(out, &[arg.as_ref()]);
    }
}

/// Appends a script command, `EVAL` or `EVALSHA`.
pub fn script(out: &mut Vec<u8>, name: &str, script: &str, keys: Words<'_>, args: Words<'_>) {
    header(out, b'*', 3 + keys.len() + args.len());
    bulk(out, &[name.as_bytes()]);
    bulk(out, &[script.as_bytes()]);
    bulk(out, &[decimal(&mut [0; DIGITS], keys.len() as u64)]);
    out.extend_from_slice(keys.encoded());
    out.extend_from_slice(args.encoded());
}

/// Appends an `EVALSHA` of the hash `script`, with `first` as its first argument.
pub fn batch<'a>(
    out: &mut Vec<u8>,
    script: &str,
    keys: impl Iterator<Item = Words<'a>> + Clone,
    first: &[u8],
    others: impl Iterator<Item = Words<'a>> + Clone,
) {
    let count: usize = keys.clone().map(Words::len).sum();
    header(out, b'*', 4 + count + others.clone().map(Words::len).sum::<usize>());
    bulk(out, &[b"EVALSHA"]);
    bulk(out, &[script.as_bytes()]);
    bulk(out, &[decimal(&mut [0; DIGITS], count as u64)]);
    keys.for_each(|words| out.extend_from_slice(words.encoded()));
    bulk(out, &[first]);
    others.for_each(|words| out.extend_from_slice(words.encoded()));
}

/// Appends the concatenation of these parts as a bulk string.
pub(crate) fn bulk(out: &mut Vec<u8>, parts: &[&[u8]]) {
    header(out, b'$', parts.iter().map(|part| part.len()).sum());
    parts.iter().for_each(|part| out.extend_from_slice(part));
    out.extend_from_slice(b"\r\n");
}

fn header(out: &mut Vec<u8>, kind: u8, len: usize) {
    let mut digits = [0; DIGITS];
    out.push(kind);
    out.extend_from_slice(decimal(&mut digits, len as u64));
    out.extend_from_slice(b"\r\n");
}

/// Maximum number of digits of a number.
pub(crate) const DIGITS: usize = u64::MAX.ilog10() as usize + 1;

/// The decimal digits of a number.
pub(crate) fn decimal(digits: &mut [u8; DIGITS], number: u64) -> &[u8] {
    let mut first = DIGITS;
    let mut rest = number;
    loop {
        first -= 1;
        digits[first] = b'0' + u8::try_from(rest % 10).unwrap_or_default();
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    &digits[first..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_is_an_array_of_bulk_strings() {
        let mut out = Vec::new();
        command(&mut out, "SET", &["a\r\nb", "", "0123456789"]);
        assert_eq!(out, b"*4\r\n$3\r\nSET\r\n$4\r\na\r\nb\r\n$0\r\n\r\n$10\r\n0123456789\r\n");
    }

    #[test]
    fn script_has_its_number_of_keys_in_front() {
        let mut out = Vec::new();
        let keys: Vec<String> = (0..12).map(|number| number.to_string()).collect();
        let (mut encoded, mut arg) = (Vec::new(), Vec::new());
        keys.iter().for_each(|key| bulk(&mut encoded, &[key.as_bytes()]));
        bulk(&mut arg, &[b"arg"]);
        script(&mut out, "EVALSHA", "9f", Words::new(&encoded, 12), Words::new(&arg, 1));
        let mut same = Vec::new();
        let words = [&["9f".to_owned(), "12".to_owned()], &keys[..], &["arg".to_owned()]].concat();
        command(&mut same, "EVALSHA", &words);
        assert_eq!(out, same);
    }

    #[test]
    fn length_of_any_size_is_decimal() {
        for len in [0, 9, 10, 99, 100, 65_536, usize::MAX] {
            let mut out = Vec::new();
            header(&mut out, b'*', len);
            assert_eq!(String::from_utf8(out).expect("digits"), format!("*{len}\r\n"));
        }
    }
}
