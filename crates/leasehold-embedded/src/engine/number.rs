//! Numbers as text, by the server's rules, which differ from Rust's.

use leasehold_core::link::ServerError;
use std::io::Write;

/// Parses an integer in the server's canonical form: no `+`, no leading zero, no blank.
pub(crate) fn parse_int(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let canonical = match digits {
        [b'0'] => digits.len() == text.len(),
        [first, ..] => *first != b'0',
        [] => false,
    };
    if !canonical || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Parses an integer argument.
pub(crate) fn int_arg(text: &[u8]) -> Result<i64, ServerError> {
    parse_int(text).ok_or_else(|| ServerError::new("ERR value is not an integer or out of range"))
}

/// Parses a float. Accepts infinity but not NaN.
pub(crate) fn parse_float(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    text.parse::<f64>().ok().filter(|value| !value.is_nan())
}

/// Formats `value` as C's `%.17g`, as the server formats Lua numbers and scores.
pub(crate) fn format_float(value: f64) -> String {
    const DIGITS: i32 = 17;
    if value.is_nan() {
        return if value.is_sign_negative() { "-nan".into() } else { "nan".into() };
    }
    if value.is_infinite() {
        return if value < 0.0 { "-inf".into() } else { "inf".into() };
    }
    if value == 0.0 {
        return if value.is_sign_negative() { "-0".into() } else { "0".into() };
    }
    if let Some(whole) = exact_integer(value) {
        return whole.to_string();
    }
    let scientific = format!("{value:.16e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..DIGITS).contains(&exponent) {
        let decimals = usize::try_from(DIGITS - 1 - exponent).unwrap_or_default();
        without_trailing_zeros(&format!("{value:.decimals$}")).to_owned()
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{}e{sign}{:02}", without_trailing_zeros(mantissa), exponent.abs())
    }
}

/// Appends [`format_float`] to `buffer`.
pub(crate) fn push_float(buffer: &mut Vec<u8>, value: f64) {
    // Zero has a sign and is rare, so exclude it.
    let whole = exact_integer(value).filter(|whole| *whole != 0);
    let written = whole.map(|whole| write!(buffer, "{whole}"));
    if !matches!(written, Some(Ok(()))) {
        buffer.extend_from_slice(format_float(value).as_bytes());
    }
}

/// The usual case: below 2^53 every integer is exact.
fn exact_integer(value: f64) -> Option<i64> {
    (value.trunc() == value && value.abs() < 9_007_199_254_740_992.0).then_some(value as i64)
}

fn without_trailing_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_canonical_form_of_an_integer_counts() {
        assert_eq!(parse_int(b"0"), Some(0));
        assert_eq!(parse_int(b"-12"), Some(-12));
        assert_eq!(parse_int(b"9223372036854775807"), Some(i64::MAX));
        assert_eq!(parse_int(b"-9223372036854775808"), Some(i64::MIN));
        for text in ["", "-", "-0", "+1", "01", " 1", "1 ", "1.0", "9223372036854775808", "x"] {
            assert_eq!(parse_int(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn floats_are_written_as_c_does() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (3.0, "3"),
            (-3.0, "-3"),
            (0.1, "0.10000000000000001"),
            (1.5, "1.5"),
            (3.99, "3.9900000000000002"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (1.5e300, "1.5000000000000001e+300"),
            (1e-4, "0.0001"),
            (1e-5, "1.0000000000000001e-05"),
            (9_007_199_254_740_993.0, "9007199254740992"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(format_float(value), text);
            let mut buffer = b"after ".to_vec();
            push_float(&mut buffer, value);
            assert_eq!(buffer, format!("after {text}").as_bytes());
        }
    }
}
