//! Requests, as bytes.

/// Appends a command to `out`: an array of bulk strings.
pub fn command(out: &mut Vec<u8>, name: &str, args: &[impl AsRef<[u8]>]) {
    header(out, b'*', 1 + args.len());
    bulk(out, name.as_bytes());
    for arg in args {
        bulk(out, arg.as_ref());
    }
}

/// Appends a script command, `EVAL` or `EVALSHA`.
pub fn script(out: &mut Vec<u8>, name: &str, script: &str, keys: &[impl AsRef<[u8]>], args: &[impl AsRef<[u8]>]) {
    header(out, b'*', 3 + keys.len() + args.len());
    bulk(out, name.as_bytes());
    bulk(out, script.as_bytes());
    let mut digits = [0; DIGITS];
    bulk(out, decimal(&mut digits, keys.len()));
    for word in keys {
        bulk(out, word.as_ref());
    }
    for word in args {
        bulk(out, word.as_ref());
    }
}

/// Appends an `EVALSHA` of the hash `script` with the arguments `first` and `others`.
pub fn batch(
    out: &mut Vec<u8>,
    script: &str,
    keys: impl Iterator<Item = impl AsRef<[u8]>> + Clone,
    first: &[u8],
    others: impl Iterator<Item = impl AsRef<[u8]>> + Clone,
) {
    let count = keys.clone().count();
    header(out, b'*', 4 + count + others.clone().count());
    bulk(out, b"EVALSHA");
    bulk(out, script.as_bytes());
    bulk(out, decimal(&mut [0; DIGITS], count));
    for word in keys {
        bulk(out, word.as_ref());
    }
    bulk(out, first);
    for word in others {
        bulk(out, word.as_ref());
    }
}

fn bulk(out: &mut Vec<u8>, word: &[u8]) {
    header(out, b'$', word.len());
    out.extend_from_slice(word);
    out.extend_from_slice(b"\r\n");
}

fn header(out: &mut Vec<u8>, kind: u8, len: usize) {
    let mut digits = [0; DIGITS];
    out.push(kind);
    out.extend_from_slice(decimal(&mut digits, len));
    out.extend_from_slice(b"\r\n");
}

const DIGITS: usize = usize::MAX.ilog10() as usize + 1;

fn decimal(digits: &mut [u8; DIGITS], number: usize) -> &[u8] {
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
        script(&mut out, "EVALSHA", "9f", &keys, &["arg"]);
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
