//! The wire format: requests and replies in RESP2 and RESP3, parsed as far as they have arrived.

use std::fmt;

/// One reply of a server, RESP2 or RESP3.
#[derive(Clone, PartialEq)]
pub enum Resp {
    /// A status such as `OK`.
    Simple(String),
    /// An error; the text begins with its code.
    Error(String),
    /// An integer.
    Int(i64),
    /// A string of bytes; RESP3's verbatim strings and big numbers are given so too.
    Bulk(Vec<u8>),
    /// Null, of any of the three forms.
    Nil,
    /// An array.
    Array(Vec<Self>),
    /// RESP3: a map, in the order of the wire.
    Map(Vec<(Self, Self)>),
    /// RESP3: a set.
    Set(Vec<Self>),
    /// RESP3: a message that answers no request.
    Push(Vec<Self>),
    /// RESP3: a floating-point number.
    Double(f64),
    /// RESP3: a truth value.
    Bool(bool),
}

/// The bytes are not RESP.
#[derive(Debug)]
pub(crate) struct Malformed;

/// A frame and how many bytes it took, or `None` as long as its end has not arrived.
type Parsed<T> = Result<Option<(T, usize)>, Malformed>;

impl Resp {
    /// The integer, if it is one.
    #[must_use]
    pub fn as_int(&self) -> Option<i64> {
        if let Self::Int(int) = self { Some(*int) } else { None }
    }

    /// The bytes of a string, a status or an error.
    #[must_use]
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Bulk(bytes) => Some(bytes),
            Self::Simple(text) | Self::Error(text) => Some(text.as_bytes()),
            _ => None,
        }
    }

    /// The text of a string, a status or an error that is UTF-8.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(self.as_bytes()?).ok()
    }

    /// The elements of an array, a set or a push; none for everything else.
    #[must_use]
    pub fn elements(&self) -> &[Self] {
        match self {
            Self::Array(all) | Self::Set(all) | Self::Push(all) => all,
            _ => &[],
        }
    }

    /// Whether it is an error reply.
    #[must_use]
    pub fn is_error(&self) -> bool {
        matches!(self, Self::Error(_))
    }

    /// Whether it is null.
    #[must_use]
    pub fn is_nil(&self) -> bool {
        matches!(self, Self::Nil)
    }

    /// Its bytes on the wire, for a server that a test writes itself.
    #[must_use]
    pub fn to_wire(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode(&mut out);
        out
    }

    /// Its bytes on the wire. Null is that of RESP2, which clients of RESP3 understand as well.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let mut many = |kind: char, len: usize, all: &mut dyn Iterator<Item = &Self>| {
            out.extend_from_slice(format!("{kind}{len}\r\n").as_bytes());
            all.for_each(|one| one.encode(out));
        };
        match self {
            Self::Array(all) => many('*', all.len(), &mut all.iter()),
            Self::Set(all) => many('~', all.len(), &mut all.iter()),
            Self::Push(all) => many('>', all.len(), &mut all.iter()),
            Self::Map(all) => many('%', all.len(), &mut all.iter().flat_map(|(key, value)| [key, value])),
            Self::Bulk(bytes) => {
                out.extend_from_slice(format!("${}\r\n", bytes.len()).as_bytes());
                out.extend_from_slice(bytes);
                out.extend_from_slice(b"\r\n");
            }
            Self::Simple(text) => out.extend_from_slice(format!("+{text}\r\n").as_bytes()),
            Self::Error(text) => out.extend_from_slice(format!("-{text}\r\n").as_bytes()),
            Self::Int(int) => out.extend_from_slice(format!(":{int}\r\n").as_bytes()),
            Self::Double(double) => out.extend_from_slice(format!(",{double}\r\n").as_bytes()),
            Self::Bool(truth) => out.extend_from_slice(if *truth { b"#t\r\n" } else { b"#f\r\n" }),
            Self::Nil => out.extend_from_slice(b"$-1\r\n"),
        }
    }
}

impl fmt::Debug for Resp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Simple(text) => write!(f, "+{text}"),
            Self::Error(text) => write!(f, "-{text}"),
            Self::Int(int) => write!(f, ":{int}"),
            Self::Bulk(bytes) => write!(f, "{:?}", String::from_utf8_lossy(bytes)),
            Self::Nil => f.write_str("nil"),
            Self::Array(all) => f.debug_list().entries(all).finish(),
            Self::Map(all) => f.debug_map().entries(all.iter().map(|(k, v)| (k, v))).finish(),
            Self::Set(all) => f.debug_set().entries(all).finish(),
            Self::Push(all) => f.debug_tuple("Push").field(all).finish(),
            Self::Double(double) => write!(f, ",{double}"),
            Self::Bool(truth) => write!(f, "#{truth}"),
        }
    }
}

/// The bytes of a request.
pub(crate) fn encode<A: AsRef<[u8]>>(argv: &[A]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", argv.len()).into_bytes();
    for arg in argv {
        let arg = arg.as_ref();
        out.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
    out
}

/// Takes the first request out of `buf`, once it is whole.
///
/// # Panics
///
/// The bytes are no request.
pub fn take_request(buf: &mut Vec<u8>) -> Option<Vec<Vec<u8>>> {
    let (argv, used) = parse_request(buf).expect("a client sends requests")?;
    buf.drain(..used);
    Some(argv)
}

/// The first request in `buf`: an array of strings, or an inline command.
pub(crate) fn parse_request(buf: &[u8]) -> Parsed<Vec<Vec<u8>>> {
    match buf.first() {
        None => Ok(None),
        Some(b'*') => {
            let Some((frame, used)) = parse_reply(buf)? else { return Ok(None) };
            let Resp::Array(args) = frame else { return Err(Malformed) };
            let argv = args.into_iter().map(|arg| if let Resp::Bulk(bytes) = arg { Ok(bytes) } else { Err(Malformed) });
            Ok(Some((argv.collect::<Result<_, _>>()?, used)))
        }
        Some(byte) if byte.is_ascii_graphic() || byte.is_ascii_whitespace() => {
            let Some(end) = buf.iter().position(|&byte| byte == b'\n') else { return Ok(None) };
            let words = buf[..end].split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
            Ok(Some((words.map(<[u8]>::to_vec).collect(), end + 1)))
        }
        Some(_) => Err(Malformed),
    }
}

/// The first reply in `buf`.
pub(crate) fn parse_reply(buf: &[u8]) -> Parsed<Resp> {
    let Some(end) = buf.windows(2).position(|pair| pair == b"\r\n") else { return Ok(None) };
    let head = std::str::from_utf8(&buf[..end]).map_err(|_| Malformed)?;
    let mut chars = head.chars();
    let (Some(kind), line) = (chars.next(), chars.as_str()) else { return Err(Malformed) };
    let used = end + 2;
    let simple = match kind {
        '+' => Resp::Simple(line.to_owned()),
        '-' => Resp::Error(line.to_owned()),
        ':' => Resp::Int(number(line)?),
        '_' => Resp::Nil,
        '#' => Resp::Bool(line == "t"),
        ',' => Resp::Double(line.parse().map_err(|_| Malformed)?),
        '(' => Resp::Bulk(line.as_bytes().to_vec()),
        '$' | '=' | '!' => return parse_bytes(kind, number(line)?, buf, used),
        '*' | '~' | '>' | '%' => return parse_many(kind, number(line)?, buf, used),
        _ => return Err(Malformed),
    };
    Ok(Some((simple, used)))
}

fn parse_bytes(kind: char, len: i64, buf: &[u8], start: usize) -> Parsed<Resp> {
    let Ok(len) = usize::try_from(len) else { return Ok(Some((Resp::Nil, start))) };
    let end = start + len;
    if buf.len() < end + 2 {
        return Ok(None);
    }
    let bytes = buf[start..end].to_vec();
    let resp = match kind {
        '!' => Resp::Error(String::from_utf8_lossy(&bytes).into_owned()),
        // A verbatim string begins with a three-letter format and a colon.
        '=' => Resp::Bulk(bytes.get(4..).ok_or(Malformed)?.to_vec()),
        _ => Resp::Bulk(bytes),
    };
    Ok(Some((resp, end + 2)))
}

fn parse_many(kind: char, len: i64, buf: &[u8], start: usize) -> Parsed<Resp> {
    let Ok(len) = usize::try_from(len) else { return Ok(Some((Resp::Nil, start))) };
    let mut at = start;
    let mut all = Vec::new();
    for _ in 0..if kind == '%' { len * 2 } else { len } {
        let Some((element, used)) = parse_reply(&buf[at..])? else { return Ok(None) };
        at += used;
        all.push(element);
    }
    let resp = match kind {
        '~' => Resp::Set(all),
        '>' => Resp::Push(all),
        '%' => {
            let mut flat = all.into_iter();
            Resp::Map(std::iter::from_fn(|| Some((flat.next()?, flat.next()?))).collect())
        }
        _ => Resp::Array(all),
    };
    Ok(Some((resp, at)))
}

fn number(line: &str) -> Result<i64, Malformed> {
    line.parse().map_err(|_| Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_that_was_parsed_is_written_as_it_came() {
        let wire = b"*8\r\n$2\r\nab\r\n:7\r\n%1\r\n+k\r\n>1\r\n#t\r\n$-1\r\n-ERR no\r\n~1\r\n#f\r\n,1.5\r\n*0\r\n";
        let (frame, used) = parse_reply(wire).expect("it is well formed").expect("it is whole");
        let mut written = Vec::new();
        frame.encode(&mut written);
        assert_eq!((used, String::from_utf8_lossy(&written)), (wire.len(), String::from_utf8_lossy(wire)));
    }

    #[test]
    fn a_frame_is_whole_only_with_its_last_byte() {
        let wire = b"*3\r\n$2\r\nab\r\n:7\r\n%1\r\n+k\r\n>1\r\n#t\r\n";
        for cut in 0..wire.len() {
            assert!(
                parse_reply(&wire[..cut]).expect("a prefix is not malformed").is_none(),
                "{cut} bytes are no frame"
            );
        }
        let (frame, used) = parse_reply(wire).expect("well-formed").expect("complete");
        assert_eq!(used, wire.len());
        let push = Resp::Push(vec![Resp::Bool(true)]);
        let map = Resp::Map(vec![(Resp::Simple("k".into()), push)]);
        assert_eq!(frame, Resp::Array(vec![Resp::Bulk(b"ab".to_vec()), Resp::Int(7), map]));
    }

    #[test]
    fn nulls_errors_and_verbatim_strings() {
        let parsed = |wire: &[u8]| parse_reply(wire).expect("well-formed").expect("complete").0;
        assert_eq!(parsed(b"$-1\r\n"), Resp::Nil);
        assert_eq!(parsed(b"*-1\r\n"), Resp::Nil);
        assert_eq!(parsed(b"!5\r\nERR x\r\n"), Resp::Error("ERR x".into()));
        assert_eq!(parsed(b"=6\r\ntxt:ab\r\n"), Resp::Bulk(b"ab".to_vec()));
    }

    #[test]
    fn requests_are_arrays_or_inline() {
        let wire = encode(&["GET", "a b"]);
        let (argv, used) = parse_request(&wire).expect("well-formed").expect("complete");
        assert_eq!((argv, used), (vec![b"GET".to_vec(), b"a b".to_vec()], wire.len()));
        let (argv, used) = parse_request(b"PING  x\r\nrest").expect("well-formed").expect("complete");
        assert_eq!((argv, used), (vec![b"PING".to_vec(), b"x".to_vec()], 9));
        assert!(parse_request(b"\x16\x03\x01").is_err(), "a TLS greeting is not a request");
    }
}
