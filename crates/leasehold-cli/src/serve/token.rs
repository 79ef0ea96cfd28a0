//! The token for unlock requests.

use crate::failure::{Exit, Failure};
use crate::files;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use subtle::ConstantTimeEq as _;

/// The environment variable for the token.
const VARIABLE: &str = "LEASEHOLD_SERVE_TOKEN";

/// Minimum length, to prevent guessing.
const LEAST: usize = 16;

/// The secret of unlock requests.
pub(super) struct Token(String);

impl Token {
    /// Returns the token from the file or the environment, or a new token. Also returns whether the token is new.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or the token is too short.
    pub(super) fn find(file: Option<&Path>) -> Result<(Self, bool), Failure> {
        let given = match file {
            Some(path) => Some(files::one_line(files::read(path)?, path)?),
            None => std::env::var(VARIABLE).ok().filter(|value| !value.is_empty()),
        };
        match given {
            Some(token) if token.len() < LEAST => {
                let text = format!("the token for --allow-unlock is shorter than {LEAST} characters");
                Err(Failure::new(Exit::Usage, text))
            }
            Some(token) => Ok((Self(token), false)),
            None => Ok((Self(random()?), true)),
        }
    }

    /// Returns the token for output.
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// Compares the token in constant time.
    pub(super) fn is(&self, given: &str) -> bool {
        self.0.as_bytes().ct_eq(given.as_bytes()).into()
    }
}

/// Returns a random token of 128 bits.
fn random() -> Result<String, Failure> {
    let mut bytes = [0; 16];
    let read = File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut bytes));
    read.map_err(|error| Failure::new(Exit::Io, format!("cannot read /dev/urandom: {error}")))?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_random_and_compared_whole() {
        let (one, other) = (random().expect("a token"), random().expect("a token"));
        assert!(one.len() == 32 && one != other);
        let token = Token(one.clone());
        assert!(token.is(&one) && !token.is(&other) && !token.is(&one[..31]) && !token.is(""));
    }
}
